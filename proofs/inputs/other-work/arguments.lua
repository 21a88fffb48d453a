-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Variable arguments, closures, errors, and functions of tables and strings.
local function pick(...) return select("#", ...), (select(2, ...)) end
local function apply(f, ...) return f(...) end
local total = 0
for i = 1, 4000 do
  local n, second = apply(pick, i, i + 1, nil, "x")
  total = total + n + second
end
local function counter() local n = 0; return function(step) n = n + (step or 1); return n end, function() n = 0 end end
local up, reset = counter()
for i = 1, 9000 do up(i % 3); if i % 1000 == 0 then reset() end end
local caught = 0
for i = 1, 1500 do
  local ok, why = pcall(function(x) if x % 2 == 0 then error("even " .. x) end; return x end, i)
  if not ok then caught = caught + #why end
  local fine = xpcall(function() return nil + i end, function(m) return m .. "?" end)
  caught = caught + (fine and 1 or 2)
end
local list = {}
for i = 1, 600 do table.insert(list, i * 7 % (#list + 1) + 1, (i * 37) % 101) end
for i = 1, 200 do table.remove(list, i) end
table.sort(list, function(x, y) return x > y end)
local moved = table.move(list, 1, 100, 50, {})
print(total, up(), caught, #list, #moved, table.unpack(list, 1, 3))
local text = ("the quick brown fox "):rep(300)
local out = text:gsub("(%w+) (%w+)", "%2 %1"):reverse():byte(1, 9)
local parts = {}
for a, b in text:gmatch("()(%u?%l+)") do parts[#parts + 1] = a .. b end
print(out, #table.concat(parts), text:find("fox the", 1, true), text:rep(2, "|"):len(), string.format("%s %10.3s %-5d| %i", {} ~= nil, "abcdef", 42, 7))
