-- Checks the preconditions of all writes, then applies all writes.
-- ARGV: for each write a letter and its arguments; KEYS: the keys of each write.
-- Returns {-1, last event}, or {position of the write, current value} on a conflict.
-- Redis refuses the first write of a script if it is out of memory, and none after it.

local ARGUMENTS = { S = 4, R = 2, T = 1, D = 0, A = 9, L = 0, M = 3 }
local KEYS_OF = { S = 1, R = 1, T = 1, D = 1, A = 2, L = 2, M = 1 }
-- No field has this name: it is not UTF-8. A record exists if it has this field.
local EXISTS = '\255'

local function number_text(number)
  return string.format('%.0f', number)
end

-- Fails with the current value of the field.
local function precondition_holds(key, field, precondition)
  local kind = string.sub(precondition, 1, 1)
  if kind == 'N' then
    return true
  end
  local current = redis.call('HGET', key, field)
  local holds
  if kind == 'R' then
    holds = redis.call('EXISTS', key) == 1
  elseif kind == 'A' then
    holds = not current
  elseif kind == 'B' then
    holds = not current and redis.call('EXISTS', key) == 1
  else
    holds = current and string.sub(current, 1, 8) == string.sub(precondition, 2)
  end
  return holds, current
end

local function read_log(key)
  local values = redis.call('HMGET', key, 'owner', 'last', 'ended', 'trimmed', 'bytes')
  if not values[2] then
    return nil
  end
  return {
    owner = values[1],
    last = tonumber(values[2]),
    ended = values[3],
    trimmed = tonumber(values[4]),
    bytes = tonumber(values[5]),
  }
end

local function read_append(at)
  return {
    owner = ARGV[at + 1],
    replaces = ARGV[at + 2],
    first = tonumber(ARGV[at + 3]),
    count = tonumber(ARGV[at + 4]),
    ends = ARGV[at + 5],
    max_events = tonumber(ARGV[at + 6]),
    max_bytes = tonumber(ARGV[at + 7]),
    ttl = ARGV[at + 8],
    data = ARGV[at + 9],
  }
end

-- Whether the owner of the log has made this append before.
local function is_repeated(log, append)
  return append.first and log.owner == append.owner and log.ended == append.ends
    and append.first + append.count == log.last + 1
end

local function append_holds(key, append)
  local log = read_log(key)
  if not log or is_repeated(log, append) then
    return true
  end
  local follows = not append.first
    or (append.first == log.last + 1
      and (log.owner == append.owner or append.replaces == '=' .. log.owner))
  return follows and log.ended == '0'
end

-- Drops the oldest appends until the log is within its limits.
local function trim(events, log, append)
  local dropped
  local function exceeds()
    return log.last - log.trimmed > append.max_events or log.bytes > append.max_bytes
  end
  while exceeds() do
    local oldest = redis.call('XRANGE', events, dropped and '(' .. dropped or '-', '+', 'COUNT', 16)
    if #oldest == 0 then
      log.trimmed = log.last
      log.bytes = 0
    end
    for _, entry in ipairs(oldest) do
      if not exceeds() then
        break
      end
      dropped = entry[1]
      log.trimmed = tonumber(string.match(dropped, '^%d+'))
      log.bytes = log.bytes - #entry[2][4]
    end
  end
  if dropped then
    redis.call('XTRIM', events, 'MINID', number_text(log.trimmed + 1) .. '-0')
  end
end

-- Returns the number of the last event.
local function apply_append(key, events, append)
  local log = read_log(key)
  if not log then
    -- Not always: after a DEL, Redis would accept the other writes even if it is out of memory.
    if redis.call('EXISTS', events) == 1 then
      redis.call('DEL', events)
    end
    local last = append.first and append.first - 1 or 0
    log = { owner = append.owner, last = last, ended = '0', trimmed = last, bytes = 0 }
  end
  if not is_repeated(log, append) then
    if append.count > 0 then
      local first = log.last + 1
      log.last = log.last + append.count
      log.bytes = log.bytes + #append.data
      redis.call('XADD', events, number_text(log.last) .. '-0', 'first', number_text(first), 'data', append.data)
    end
    trim(events, log, append)
    redis.call('HSET', key, 'owner', append.owner, 'last', number_text(log.last), 'ended', append.ends,
      'trimmed', number_text(log.trimmed), 'bytes', number_text(log.bytes))
  end
  redis.call('PEXPIRE', key, append.ttl)
  redis.call('PEXPIRE', events, append.ttl)
  return log.last
end

-- The messages of a stream have the ids <time of its creation>-1, -2, -3 and so on. A reader sees from the id that
-- nothing is missing.
local function send(key, message, ttl, max)
  local id
  if redis.call('EXISTS', key) == 1 then
    local info = redis.call('XINFO', 'STREAM', key)
    for at = 1, #info, 2 do
      if info[at] == 'last-generated-id' then
        id = string.match(info[at + 1], '^%d+') .. '-*'
      end
    end
  else
    local time = redis.call('TIME')
    id = number_text(time[1] * 1000 + math.floor(time[2] / 1000)) .. '-1'
  end
  redis.call('XADD', key, 'MAXLEN', '~', max, id, 'm', message)
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end

local at, key, write = 1, 1, 0
while at <= #ARGV do
  local kind = ARGV[at]
  local holds, current = true, false
  if kind == 'S' or kind == 'R' then
    holds, current = precondition_holds(KEYS[key], ARGV[at + 1], ARGV[at + 2])
  elseif kind == 'A' then
    holds = append_holds(KEYS[key], read_append(at))
  end
  if not holds then
    return { write, current }
  end
  at, key, write = at + 1 + ARGUMENTS[kind], key + KEYS_OF[kind], write + 1
end

local last_event = 0
at, key = 1, 1
while at <= #ARGV do
  local kind, name = ARGV[at], KEYS[key]
  if kind == 'S' then
    redis.call('HSET', name, ARGV[at + 1], ARGV[at + 4], EXISTS, '')
    redis.call('PEXPIRE', name, ARGV[at + 3])
  elseif kind == 'R' then
    redis.call('HDEL', name, ARGV[at + 1])
    if redis.call('HLEN', name) == 1 then
      redis.call('DEL', name)
    end
  elseif kind == 'T' then
    redis.call('PEXPIRE', name, ARGV[at + 1])
  elseif kind == 'D' then
    redis.call('UNLINK', name)
  elseif kind == 'A' then
    last_event = apply_append(name, KEYS[key + 1], read_append(at))
  elseif kind == 'L' then
    redis.call('UNLINK', name, KEYS[key + 1])
  elseif kind == 'M' then
    send(name, ARGV[at + 3], ARGV[at + 1], ARGV[at + 2])
  end
  at, key = at + 1 + ARGUMENTS[kind], key + KEYS_OF[kind]
end
return { -1, last_event }
