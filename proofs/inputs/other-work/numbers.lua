-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Floating point: bodies, a set of points, matrices and sums.
local function mandelbrot(n)
  local inside = 0
  for y = 0, n - 1 do
    for x = 0, n - 1 do
      local cr, ci, r, i = 2.0 * x / n - 1.5, 2.0 * y / n - 1.0, 0.0, 0.0
      local steps = 0
      while steps < 40 and r * r + i * i < 4.0 do r, i = r * r - i * i + cr, 2 * r * i + ci; steps = steps + 1 end
      if steps == 40 then inside = inside + 1 end
    end
  end
  return inside
end
print(mandelbrot(48))
local bodies = {}
for i = 1, 5 do bodies[i] = { x = i, y = i * i / 3, z = -i, vx = 0, vy = 0.1 * i, vz = 0, mass = 1 / i } end
for step = 1, 400 do
  for i = 1, #bodies do
    local p = bodies[i]
    for j = i + 1, #bodies do
      local q = bodies[j]
      local dx, dy, dz = p.x - q.x, p.y - q.y, p.z - q.z
      local d2 = dx * dx + dy * dy + dz * dz + 0.01
      local m = 0.01 / (d2 * math.sqrt(d2))
      p.vx = p.vx - dx * q.mass * m; p.vy = p.vy - dy * q.mass * m; p.vz = p.vz - dz * q.mass * m
      q.vx = q.vx + dx * p.mass * m; q.vy = q.vy + dy * p.mass * m; q.vz = q.vz + dz * p.mass * m
    end
  end
  for _, p in ipairs(bodies) do p.x = p.x + 0.01 * p.vx; p.y = p.y + 0.01 * p.vy; p.z = p.z + 0.01 * p.vz end
end
print(("%.6f %.6f"):format(bodies[1].x, bodies[5].vy))
local sum = 0.0
for x = 0.5, 3000.0, 0.25 do sum = sum + math.sin(x) / x + x % 1.5 - x // 2.5 + math.max(x, 7) end
print(("%.6f"):format(sum), math.type(3 // 1.0), math.tointeger(3.0))
