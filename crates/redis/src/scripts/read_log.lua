-- Returns the state of a log and its appends that contain events after a number.
-- KEYS: the log and its events. ARGV: the number.

local log = redis.call('HMGET', KEYS[1], 'owner', 'last', 'ended')
if not log[2] then
  return false
end
return { log[1], log[2], log[3], redis.call('XRANGE', KEYS[2], '(' .. ARGV[1] .. '-0', '+') }
