// SPDX-License-Identifier: MIT OR Apache-2.0
// The measured work, which differs from train.js: a tokenizer and an evaluator, generators, typed arrays and strings.
function* tokens(text) {
    let at = 0;
    while (at < text.length) {
        const here = text[at];
        if (here === " ") { at++; continue; }
        if (here >= "0" && here <= "9") {
            let end = at;
            while (text[end] >= "0" && text[end] <= "9") end++;
            yield Number(text.slice(at, end));
            at = end;
        } else { yield here; at++; }
    }
}
function value(text) {
    const list = [...tokens(text)];
    let at = 0;
    const atom = () => { if (list[at] === "(") { at++; const inner = sum(); at++; return inner; } return list[at++]; };
    const product = () => { let left = atom(); while (list[at] === "*") { at++; left = (left * atom()) % 65521; } return left; };
    const sum = () => { let left = product(); while (list[at] === "+" || list[at] === "-") left = list[at++] === "+" ? left + product() : left - product(); return left; };
    return sum();
}
let seed = 7, total = 0;
const next = () => (seed = (seed * 48271) % 2147483647);
const expression = (depth) => depth === 0 ? String(next() % 90) : `(${expression(depth - 1)} ${"+-*"[next() % 3]} ${expression(depth - 1)})`;
for (let round = 0; round < 35; round++) {
    total += value(expression(7));
    const sieve = new Uint8Array(6000);
    for (let i = 2; i < sieve.length; i++) if (!sieve[i]) { total++; for (let j = i + i; j < sieve.length; j += i) sieve[j] = 1; }
    const counts = {};
    for (const letter of expression(6)) counts[letter] = (counts[letter] || 0) + 1;
    try { if (round % 2) throw new Error(Object.keys(counts).sort().join("")); } catch (error) { total += error.message.length; }
    const { a = 1, ...rest } = { b: round, c: [...Array(50).keys()].filter((n) => n % 3 === 0) };
    total = (total + a + rest.c.length + Object.entries(counts).length) % 1000003;
}
console.log(total);
