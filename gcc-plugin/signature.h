// SPDX-License-Identifier: GPL-3.0-or-later
// Signature of a block, used to find the block again in a changed function. Does not use GCC's headers.
#ifndef SEDIMENT_SIGNATURE_H
#define SEDIMENT_SIGNATURE_H

#include <cstdint>

namespace sediment {

// Short hashes of a block. Equal blocks have equal signatures; different blocks usually have different signatures.
struct Signature
{
  // Hash of the called functions, in order; 0: no calls. 4 bits.
  unsigned callees;
  // Hash of the operations other than copies, in order. 6 bits.
  unsigned operations;
  // Line of the first instruction with a line, relative to the first line of its function, or of the inlined function that the instruction
  // comes from; modulo 64. 6 bits.
  unsigned line;

  static constexpr unsigned lines = 64;

  static Signature unpacked (uint32_t bits) { return { bits >> 12 & 15, bits >> 6 & 63, bits & 63 }; }
  uint32_t packed () const { return callees << 12 | operations << 6 | line; }
  bool operator== (const Signature &other) const { return packed () == other.packed (); }
};

} // namespace sediment

#endif
