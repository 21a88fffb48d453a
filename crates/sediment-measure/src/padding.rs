// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes layouts of one program that differ only by padding: an unused function, linked first, moves all code after it.
//!
//! The size is drawn at random, in steps of the alignment of functions and up to a page. Functions keep their order and
//! their neighbours, but are in other cache sets, lines and pages (Mytkowicz et al., "Producing Wrong Data Without
//! Doing Anything Obviously Wrong!", ASPLOS 2009).

use sediment_core::random::Generator;

/// Largest function, in bytes.
const MOST: usize = 4096;
/// Step of sizes, in bytes.
const STEP: usize = 16;

/// Draws the size of a padding function, in bytes.
pub fn draw(generator: &mut Generator) -> usize {
    STEP * (1 + generator.below(MOST / STEP))
}

/// Returns the GNU assembler source of an object whose only function has this many bytes and is in `section`.
#[must_use]
pub fn assembly(section: &str, bytes: usize) -> String {
    format!(
        "\t.section {section},\"ax\",%progbits\n\t.p2align 4\n\t.globl sediment_eval_padding\n\
         \t.type sediment_eval_padding, %function\nsediment_eval_padding:\n\t.zero {bytes}\n\
         \t.size sediment_eval_padding, {bytes}\n\t.section .note.GNU-stack,\"\",%progbits\n"
    )
}
