// SPDX-License-Identifier: MIT OR Apache-2.0
//! Panics that are caught, trait objects, closures, maps and threads.
use std::collections::BTreeMap;

trait Shape {
    fn area(&self) -> u32;
}
struct Square(u32);
impl Shape for Square {
    fn area(&self) -> u32 {
        self.0 * self.0
    }
}

#[inline(never)]
fn fib(n: u32) -> u32 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

#[inline(never)]
fn fail(n: u32) {
    if n == 0 {
        panic!("failed");
    }
    fail(n - 1);
}

fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(7))];
    println!("{} {}", fib(20), shapes[0].area());
    let caught = std::panic::catch_unwind(|| fail(10));
    println!("{}", caught.unwrap_err().downcast_ref::<&str>().unwrap());
    println!("{}", "x1".parse::<u32>().is_err());
    let mut words: BTreeMap<String, usize> = BTreeMap::new();
    for word in ["one", "three", "eleven", "one"] {
        *words.entry(word.to_owned()).or_default() += word.len();
    }
    println!("{words:?}");
    let sums: Vec<u64> =
        (1..5u64).map(|i| std::thread::spawn(move || (0..1000 * i).sum())).map(|t| t.join().unwrap()).collect();
    println!("{sums:?}");
}
