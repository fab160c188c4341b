-- Returns all fields of a small record with their values, or only the names of the fields of a large one.
-- KEYS: the record. ARGV: the number of fields that are wanted, the size of a small record.

local size = redis.call('HLEN', KEYS[1]) - 1
if size <= tonumber(ARGV[1]) or size <= tonumber(ARGV[2]) then
  return { 1, redis.call('HGETALL', KEYS[1]) }
end
return { 0, redis.call('HKEYS', KEYS[1]) }
