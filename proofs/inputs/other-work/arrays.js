// SPDX-License-Identifier: MIT OR Apache-2.0
// Typed arrays, accessors, generators of text and dates.
var u8 = new Uint8Array(500), f64 = new Float64Array(50);
for (var i = 0; i < 500; i++) { u8[i] = i * 37; f64[i % 50] += u8[i] / 3; }
var o = { get v() { return this._v * 2; }, set v(x) { this._v = x + 1; } };
for (i = 0; i < 800; i++) { o.v = i; if (o.v > 50 && i <= 700 || !i) { o['k' + i % 30] = o.v - i; } }
var s = ''; for (i = 0; i < 300; i++) { s += String.fromCharCode(97 + i % 26); } 
var m = s.match(/[aeiou]./g), parts = s.split('e').reverse().map(function (p) { return p.toUpperCase() + p.indexOf('k'); });
print(f64[3], u8[9], Object.keys(o).length, m.length, parts.join('-').length, new Date(0).toISOString(), encodeURIComponent('ä b'));
function sum() { var t = 0; for (var i = 0; i < arguments.length; i++) { t += arguments[i]; } return t; }
var t = 0; for (i = 0; i < 500; i++) { t += sum.apply(null, [i, 1, 2]) + sum.call(null, i) - sum(i--, ++i); }
print(t, isNaN(0 / 0), 7 % -3, 2 < 1, 'b' >= 'a', 1 == '1');
with (Math) { print(floor(3.7), pow(2, 5)); }
