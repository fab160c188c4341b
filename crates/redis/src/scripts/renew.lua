-- Renews the lease of a replica, drops the messages it has handled and keeps its messages alive.
-- KEYS: the lease, the inbox, the messages to all. ARGV: the time to live of the lease and the inbox, that of the
-- messages to all, the id of the first message that is not handled.

-- Unlike SET, PEXPIRE works when Redis is out of memory.
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then
  redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
end
redis.call('XTRIM', KEYS[2], 'MINID', ARGV[3])
for key, ttl in pairs({ [KEYS[2]] = ARGV[1], [KEYS[3]] = ARGV[2] }) do
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end
return 1
