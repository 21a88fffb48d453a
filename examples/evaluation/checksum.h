// SPDX-License-Identifier: MIT OR Apache-2.0
// A message's checksum; small enough to be inlined where the compiler can, or is told to.
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef INLINE_BY_HAND
static inline __attribute__((always_inline)) uint32_t step(uint32_t sum, uint8_t byte)
{
	return (sum << 5 | sum >> 27) ^ byte * 0x9e3779b1u;
}
#else
uint32_t step(uint32_t sum, uint8_t byte);
#endif

uint32_t checksum(const uint8_t *bytes, size_t count);

#endif
