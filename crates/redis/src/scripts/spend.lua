-- Takes from a rate limit. The value is the time in microseconds at which its bucket is full again.
-- KEYS: the limit. ARGV: the microseconds in which the cost and the burst become available.
-- Returns 0, or the microseconds to wait.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at = tonumber(redis.call('GET', KEYS[1]) or 0)
-- A bucket is full after the burst at the latest, also if the clock was set back.
full_at = math.min(math.max(full_at, now), now + tonumber(ARGV[2])) + tonumber(ARGV[1])
local wait = full_at - now - tonumber(ARGV[2])
if wait > 0 then
  return math.ceil(wait)
end
redis.call('SET', KEYS[1], string.format('%.17g', full_at), 'PX', math.max(1, math.ceil((full_at - now) / 1000)))
return 0
