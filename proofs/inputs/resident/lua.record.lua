-- SPDX-License-Identifier: MIT OR Apache-2.0
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print(fib(21))
local words = {}
for i = 1, 4000 do words[#words + 1] = ("w%d"):format(i * 7919 % 4001) end
table.sort(words)
local text = table.concat(words, " ")
local count = {}
for word in text:gmatch("%a%d+") do count[#word] = (count[#word] or 0) + 1 end
for size, many in pairs(count) do io.write(size, " ", many, "\n") end
local Point = {}
Point.__index = Point
Point.__add = function(a, b) return setmetatable({ x = a.x + b.x, y = a.y + b.y }, Point) end
local sum = setmetatable({ x = 0, y = 0 }, Point)
for i = 1, 20000 do sum = sum + setmetatable({ x = i, y = -i }, Point) end
print(sum.x, sum.y)
print((text:gsub("w(%d)", "%1w"):sub(1, 40)))
