-- Returns the last id that each stream has given to a message and the id of the first message that it keeps, and
-- keeps both streams alive.
-- KEYS: the inbox of a replica, the messages to all. ARGV: the time to live of each.

local states = {}
for at, key in ipairs(KEYS) do
  local state = false
  if redis.call('EXISTS', key) == 1 then
    local info = redis.call('XINFO', 'STREAM', key)
    state = { '', '' }
    for part = 1, #info, 2 do
      if info[part] == 'last-generated-id' then
        state[1] = info[part + 1]
      elseif info[part] == 'first-entry' and info[part + 1] then
        state[2] = info[part + 1][1]
      end
    end
    if redis.call('PTTL', key) < tonumber(ARGV[at]) then
      redis.call('PEXPIRE', key, ARGV[at])
    end
  end
  states[at] = state
end
return states
