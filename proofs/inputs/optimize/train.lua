-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Words, tables, closures and coroutines: what the Lua interpreter is recorded with.
local words, seed = {}, 42
local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n + 1 end
for i = 1, 3000 do
    local letters = {}
    for j = 1, random(9) do letters[j] = string.char(96 + random(26)) end
    words[i] = table.concat(letters)
end
local counts = {}
for _, word in ipairs(words) do
    local key = word:gsub("[aeiou]", "*"):upper()
    counts[key] = (counts[key] or 0) + 1
end
local keys = {}
for key in pairs(counts) do keys[#keys + 1] = key end
table.sort(keys, function(a, b) return counts[a] == counts[b] and a < b or counts[a] > counts[b] end)
local Account = {}
Account.__index = Account
function Account.new(name) return setmetatable({ name = name, balance = 0 }, Account) end
function Account:deposit(v) self.balance = self.balance + v; return self end
local accounts = {}
for i = 1, 500 do accounts[i] = Account.new(words[i]):deposit(i):deposit(i / 3) end
local produce = coroutine.wrap(function() for i = 1, 5000 do coroutine.yield(i * i % 97) end end)
local sum = 0
for value in produce do sum = sum + value end
for line in string.gmatch(string.rep("key = value; ", 800), "(%w+ = %w+)") do
    local k, v = line:match("(%w+) = (%w+)")
    sum = sum + #k + #v
end
local ok, message = pcall(error, { code = 7 })
print(#keys, counts[keys[1]], accounts[500].balance, sum, ok, message.code, string.format("%5.2f %q %x", sum / 7, keys[1], sum))
