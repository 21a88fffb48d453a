// SPDX-License-Identifier: GPL-3.0-or-later
// What is characteristic of a block, by which it is found again in a function that changed: no part of this knows GCC.
#ifndef SEDIMENT_SIGNATURE_H
#define SEDIMENT_SIGNATURE_H

#include <cstdint>

namespace sediment {

// Folded hashes: equal blocks have equal signatures, and different ones often different signatures.
struct Signature
{
  // Of the functions that it calls, in their order; 0: none. 4 bits.
  unsigned callees;
  // Of its operations other than copies, in their order. 6 bits.
  unsigned operations;
  // Line of its first instruction, behind the first line of its function or of the inlined one that it is from, modulo 64.
  unsigned line;

  static const unsigned lines = 64;

  static Signature unpacked (uint32_t bits) { return { bits >> 12 & 15, bits >> 6 & 63, bits & 63 }; }
  uint32_t packed () const { return callees << 12 | operations << 6 | line; }
  bool operator== (const Signature &other) const { return packed () == other.packed (); }
};

} // namespace sediment

#endif
