-- SPDX-License-Identifier: MIT OR Apache-2.0
local function queens(n)
  local found, columns, up, down = 0, {}, {}, {}
  local function place(row)
    if row > n then found = found + 1 return end
    for column = 1, n do
      if not (columns[column] or up[row + column] or down[row - column]) then
        columns[column], up[row + column], down[row - column] = true, true, true
        place(row + 1)
        columns[column], up[row + column], down[row - column] = nil, nil, nil
      end
    end
  end
  place(1)
  return found
end
print(queens(7))
local lines = {}
for i = 1, 3000 do lines[i] = string.format("%05d;%s;%g", i, string.rep(string.char(97 + i % 26), i % 9), i / 7) end
local total = 0
for _, line in ipairs(lines) do
  local number, name, share = line:match("^(%d+);(%a*);(.+)$")
  total = total + tonumber(number) * #name + tonumber(share)
end
print(total)
local function numbers(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) end
local product = 1
for i in numbers(5000) do product = product * i % 1000003 end
print(product, #table.concat(lines, "\n"):upper())
