// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits command lines into words.

/// Splits a line into words; a part in double quotes is one word.
pub(crate) fn of_line(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('"').enumerate() {
        if at % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for (number, word) in part.split(' ').enumerate() {
            if number > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
