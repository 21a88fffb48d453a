-- SPDX-License-Identifier: MIT OR Apache-2.0
-- A parser and printer of JSON, queens on a board, matrices and byte strings: what the Lua interpreter is measured with, and was not recorded.
local function parse(text)
    local at = 1
    local value
    local function skip() at = text:find("%S", at) or #text + 1 end
    local function string_value()
        local last = text:find('"', at + 1, true)
        local found = text:sub(at + 1, last - 1)
        at = last + 1
        return found
    end
    function value()
        skip()
        local c = text:sub(at, at)
        if c == "{" or c == "[" then
            local result, n = {}, 0
            at = at + 1
            skip()
            while not text:find("^[%]}]", at) do
                local key
                if c == "{" then skip(); key = string_value(); skip(); at = at + 1 else n = n + 1; key = n end
                result[key] = value()
                skip()
                if text:sub(at, at) == "," then at = at + 1; skip() end
            end
            at = at + 1
            return result
        elseif c == '"' then
            return string_value()
        end
        local first, last = text:find("^%-?%d+%.?%d*", at)
        at = last + 1
        return tonumber(text:sub(first, last))
    end
    return value()
end
local rows = {}
for i = 1, 400 do rows[i] = string.format('{"id": %d, "name": "n%d", "sizes": [%d, %.1f, 3]}', i, i * 7, i, i / 4) end
local data = parse("[" .. table.concat(rows, ",\n") .. "]")
local total = 0
for _, row in ipairs(data) do total = total + row.id + #row.name + row.sizes[2] end
local solutions = 0
local function place(row, columns, down, up)
    if row > 7 then solutions = solutions + 1; return end
    for column = 1, 7 do
        if not columns[column] and not down[row + column] and not up[row - column + 7] then
            columns[column], down[row + column], up[row - column + 7] = true, true, true
            place(row + 1, columns, down, up)
            columns[column], down[row + column], up[row - column + 7] = nil, nil, nil
        end
    end
end
place(1, {}, {}, {})
local a = {}
for i = 1, 30 do a[i] = {} for j = 1, 30 do a[i][j] = (i * j) % 11 end end
local trace = 0
for i = 1, 30 do for j = 1, 30 do for k = 1, 30 do trace = trace + a[i][k] * a[k][j] end end end
local packed = {}
for i = 1, 500 do packed[i] = string.pack("<i4d", i, i / 2) end
local bytes = table.concat(packed)
local at, check = 1, 0
while at <= #bytes do
    local n, d
    n, d, at = string.unpack("<i4d", bytes, at)
    check = check + n * d // 1
end
local compiled = assert(load("local t = {} for i = 1, 2000 do t[#t + 1] = i ~ 5 end return #t"))
print(total, solutions, trace, check, compiled(), utf8.len("größer"), os.date("!%Y", 0))
