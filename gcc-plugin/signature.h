// SPDX-License-Identifier: GPL-3.0-or-later
// Signature of a block, to find it again in a changed function. Independent of GCC.
#ifndef SEDIMENT_SIGNATURE_H
#define SEDIMENT_SIGNATURE_H

#include <cstdint>

namespace sediment {

// Short hashes: equal blocks have equal signatures; different blocks usually have different ones.
struct Signature
{
  // Hash of the called functions, in order; 0: no calls. 4 bits.
  unsigned callees;
  // Hash of the operations other than copies, in order. 6 bits.
  unsigned operations;
  // Line of its first instruction, relative to the first line of its function or of the inlined function, modulo 64. 6 bits.
  unsigned line;

  static constexpr unsigned lines = 64;

  static Signature unpacked (uint32_t bits) { return { bits >> 12 & 15, bits >> 6 & 63, bits & 63 }; }
  uint32_t packed () const { return callees << 12 | operations << 6 | line; }
  bool operator== (const Signature &other) const { return packed () == other.packed (); }
};

} // namespace sediment

#endif
