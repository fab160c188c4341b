-- Returns the first command of the store that the user may not run on its keys, or an empty string.
-- KEYS: one key of the store.

-- Since Redis 7.0; other servers may not have it.
if not redis.acl_check_cmd then
  return ''
end
local key = KEYS[1]
local commands = {
  { 'HMGET', key, 'a' }, { 'HGET', key, 'a' }, { 'HGETALL', key }, { 'HKEYS', key }, { 'HLEN', key },
  { 'HSET', key, 'a', '' }, { 'HDEL', key, 'a' }, { 'EXISTS', key }, { 'PTTL', key }, { 'PEXPIRE', key, 1 },
  { 'DEL', key }, { 'UNLINK', key }, { 'GET', key }, { 'SET', key, '' }, { 'TIME' },
  { 'XADD', key, '*', 'm', '' }, { 'XTRIM', key, 'MAXLEN', 0 }, { 'XRANGE', key, '-', '+' },
  { 'XINFO', 'STREAM', key }, { 'XREAD', 'STREAMS', key, 0 },
}
for _, command in ipairs(commands) do
  if not redis.acl_check_cmd(unpack(command)) then
    return command[1]
  end
end
return ''
