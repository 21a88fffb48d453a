-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Whole numbers and bits: a random generator, a hash, sieves and bases.
local a, b, c, d = 1, 2, 3, 4
for i = 1, 60000 do
  a = a ~ (a << 13) & 0xffffffff
  a = a ~ (a >> 17)
  b = (b | a) ~ ~c
  c = c * 31 + (a & 0xff) - (b % 7) // 3
  d = d + (c >> 5) - (-i)
end
print(a, b, c, d)
local sieve, primes = {}, 0
for i = 2, 20000 do
  if sieve[i] == nil then
    primes = primes + 1
    for j = i * i, 20000, i do sieve[j] = false end
  end
end
local function digits(n, base)
  local s = ""
  repeat s = (n % base) .. "," .. s; n = n // base until n == 0
  return s
end
local long = 0
for i = 1, 3000 do long = long + #digits(i * 977, 7) end
print(primes, long, 7 // -2, 7 % -3, 3 | 12, 2 ^ 10)
