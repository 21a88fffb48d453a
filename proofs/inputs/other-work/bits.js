// SPDX-License-Identifier: MIT OR Apache-2.0
// Bits, exceptions, switch and labels.
var a = 1, b = 0;
for (var i = 0; i < 6000; i++) { a ^= a << 13; a ^= a >>> 17; a ^= a << 5; b = (b + (a & 255) | 0) ^ ~i; }
print(a, b);
var caught = 0;
for (i = 0; i < 300; i++) { try { if (i % 2) { throw new Error('odd ' + i); } caught += i; } catch (e) { caught += e.message.length; } finally { caught--; } }
function kind(x) { switch (typeof x) { case 'number': return 1; case 'string': return 2; case 'object': return x === null ? 3 : 4; default: return 5; } }
var total = 0; var things = [1, 'a', null, {}, undefined, true, [2]];
outer: for (i = 0; i < 400; i++) { for (var j in things) { if (j > 5) { continue outer; } total += kind(things[j]); delete things.zz; } }
print(caught, total, void 0, -total, +'12', !total, 'x' in { x: 1 }, [] instanceof Array);
