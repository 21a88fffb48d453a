// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes messages, and checks each twice: as a whole, and while its bytes are drawn. Prints how many there were.
#include "checksum.h"
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 256 };

static uint32_t draw(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

int main(int count, char **words)
{
	uint8_t message[LONGEST];
	uint32_t state = 1, wrong = 0;
	long messages = count > 1 ? atol(words[1]) : 1000;

	for (long m = 0; m < messages; m++) {
		size_t length = 64 + draw(&state) % (LONGEST - 64);
		uint32_t sum = 1;
		for (size_t i = 0; i < length; i++) {
			message[i] = (uint8_t)draw(&state);
			sum = step(sum, message[i]);
		}
		wrong += sum != checksum(message, length);
	}
	printf("%ld messages, %u wrong\n", messages, wrong);
	return wrong != 0;
}
