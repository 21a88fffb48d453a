-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Objects: inheritance, events of metatables, closed variables and weak tables.
local Set = {}
Set.__index = Set
Set.__lt = function(x, y) return #x.list < #y.list end
Set.__le = function(x, y) return #x.list <= #y.list end
Set.__eq = function(x, y) return #x.list == #y.list end
Set.__concat = function(x, y) return Set.of(x, y) end
Set.__len = function(x) return #x.list end
Set.__call = function(x, i) return x.list[i] end
Set.__unm = function(x) return Set.of(x) end
function Set.of(...)
  local new = setmetatable({ list = {} }, Set)
  for _, other in ipairs { ... } do for _, value in ipairs(other.list) do new.list[#new.list + 1] = value end end
  return new
end
local one, many = Set.of(), 0
one.list[1] = 5
for i = 1, 1500 do
  local two = one .. (-one)
  if two > one then many = many + 1 end
  if one <= two and two ~= one then many = many + #two + two(1) end
  if not (two == one) then many = many + 1 end
end
local log = {}
local proxy = setmetatable({}, { __index = function(_, k) return k .. "!" end, __newindex = function(t, k, v) rawset(t, k, v * 2) end })
for i = 1, 3000 do proxy["k" .. i % 50] = i; log[i % 10] = proxy["z" .. i] end
local closed = 0
for i = 1, 2000 do
  local guard <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
  local fixed <const> = i
  if fixed % 3 == 0 then goto skip end
  many = many + fixed
  ::skip::
end
local weak = setmetatable({}, { __mode = "k" })
for i = 1, 2000 do weak[{}] = i end
collectgarbage()
print(many, closed, next(weak), log[3])
