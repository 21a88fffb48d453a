// SPDX-License-Identifier: MIT OR Apache-2.0
#include "checksum.h"

#ifndef INLINE_BY_HAND
uint32_t step(uint32_t sum, uint8_t byte)
{
	return (sum << 5 | sum >> 27) ^ byte * 0x9e3779b1u;
}
#endif

uint32_t checksum(const uint8_t *bytes, size_t count)
{
	uint32_t sum = 1;
	for (size_t i = 0; i < count; i++)
		sum = step(sum, bytes[i]);
	return sum;
}
