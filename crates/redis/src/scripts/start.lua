-- Returns the position after all messages to all replicas, and the first messages to one replica after another one.
-- KEYS: the inbox of the replica, the messages to all. ARGV: the time to live of the latter, the most messages, the id of
-- the message after which they begin.

local function last_id(key)
  local info = redis.call('XINFO', 'STREAM', key)
  for at = 1, #info, 2 do
    if info[at] == 'last-generated-id' then
      return info[at + 1]
    end
  end
end

-- The stream exists from now on, so that a later reader knows whether it was lost.
if redis.call('EXISTS', KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local id = string.format('%.0f-1', time[1] * 1000 + math.floor(time[2] / 1000))
  redis.call('XADD', KEYS[2], 'MAXLEN', 0, id, 'm', '')
end
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
local messages = redis.call('XRANGE', KEYS[1], '(' .. ARGV[3], '+', 'COUNT', ARGV[2])
local own = '0-0'
if #messages > 0 then
  own = messages[#messages][1]
elseif redis.call('EXISTS', KEYS[1]) == 1 then
  own = last_id(KEYS[1])
end
return { own, last_id(KEYS[2]), messages }
