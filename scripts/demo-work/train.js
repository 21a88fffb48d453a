// SPDX-License-Identifier: MIT OR Apache-2.0
// The training work: parses, sorts and prints records, matches patterns, and calls methods of classes.
const words = "alder birch cedar elm fir hazel larch maple oak pine rowan spruce willow yew".split(" ");
let state = 12345;
const random = (n) => (state = (state * 1103515245 + 12345) % 2147483648) % n;

class Shape { area() { return 0; } }
class Square extends Shape { constructor(a) { super(); this.a = a; } area() { return this.a * this.a; } }
class Circle extends Shape { constructor(r) { super(); this.r = r; } area() { return 3 * this.r * this.r; } }

let total = 0;
for (let round = 0; round < 60; round++) {
    const records = [];
    for (let i = 0; i < 400; i++)
        records.push({ id: i, name: words[random(14)] + i, tags: [words[random(14)], words[random(14)]], weight: random(1000) / 7 });
    const read = JSON.parse(JSON.stringify(records));
    read.sort((a, b) => a.weight - b.weight || a.name.localeCompare(b.name));
    const byTag = new Map();
    for (const { tags, weight } of read)
        for (const tag of tags) byTag.set(tag, (byTag.get(tag) ?? 0) + weight);
    const text = read.map((record) => `${record.name}=${record.weight.toFixed(2)};`).join("");
    for (const match of text.matchAll(/([a-z]+)(\d+)=(\d+)\.(\d\d);/g)) total += Number(match[3]);
    total += text.replace(/[aeiou]/g, (vowel) => vowel.toUpperCase()).split("=").length;
    const shapes = read.map((record, at) => (at % 2 ? new Square(at) : new Circle(at)));
    total = (total + shapes.reduce((sum, shape) => sum + shape.area(), 0) + [...byTag.values()].length) % 1000003;
}
console.log(total);
