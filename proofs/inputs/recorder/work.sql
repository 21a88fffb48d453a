-- SPDX-License-Identifier: MIT OR Apache-2.0
create table part(id integer primary key, name text, weight integer);
insert into part with recursive turn(n) as (select 1 union all select n + 1 from turn where n < 400000)
    select n, printf('%x', n * 7919 % 65521), n % 997 from turn;
create index by_name on part(name);
select weight, count(*), min(name) from part group by weight order by 2 desc, 1 limit 3;
select count(*) from part one join part two on one.name = two.name and one.id < two.id;
update part set weight = weight + 1 where name like '%f%';
select sum(weight), count(distinct name) from part where name glob '[0-9]*a*';
with recursive turn(n, text) as (select 1, '' union all select n + 1, substr(text || n, -40) from turn where n < 400000)
    select length(text), max(n) from turn;
