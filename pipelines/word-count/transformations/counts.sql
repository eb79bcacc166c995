select word, count(*) as count
from lines lateral view explode(split(lower(value), '[^\\p{L}]+')) as word
where word != ''
group by word
