-- SPDX-License-Identifier: MIT OR Apache-2.0
CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, city TEXT, age INT);
CREATE TABLE visits(person INT REFERENCES people, day TEXT, cost REAL);
CREATE INDEX visits_person ON visits(person, day);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
INSERT INTO people SELECT i, 'name' || (i * 7919 % 1009), 'city' || (i % 17), 18 + i * 31 % 60 FROM n;
INSERT INTO visits SELECT id, date('2001-01-01', '+' || (id * 13 % 700) || ' days'), id * 1.5 FROM people;
INSERT INTO visits SELECT id, date('2003-05-06', '+' || (id * 29 % 300) || ' days'), id / 3.0 FROM people WHERE age > 30;
SELECT city, count(*), avg(age), max(name) FROM people GROUP BY city ORDER BY 3 DESC;
SELECT p.name, sum(v.cost) AS total FROM people p JOIN visits v ON v.person = p.id WHERE v.day > '2001-06-01' GROUP BY p.id HAVING total > 100 ORDER BY total LIMIT 20;
UPDATE people SET age = age + 1 WHERE city IN ('city3', 'city5', 'city7');
DELETE FROM visits WHERE person IN (SELECT id FROM people WHERE age % 9 = 0);
SELECT a.name, b.name FROM people a, people b WHERE a.age = b.age AND a.city < b.city AND a.id < 40 ORDER BY 1, 2 LIMIT 30;
CREATE VIRTUAL TABLE notes USING fts5(title, body);
INSERT INTO notes SELECT name, 'lives in ' || city || ' and is ' || age || ' years old' FROM people;
SELECT title, snippet(notes, 1, '[', ']', '…', 6) FROM notes WHERE notes MATCH 'city3 OR city11' ORDER BY rank LIMIT 10;
SELECT upper(substr(name, 2, 4)), length(city), round(age / 7.0, 2), coalesce(nullif(age, 20), -1) FROM people WHERE name LIKE '%9%' ORDER BY name;
BEGIN; INSERT INTO people(name, city, age) SELECT name || 'x', city, age FROM people WHERE id < 100; ROLLBACK;
SELECT count(*) FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE person = people.id AND cost > 50);
.mode csv
SELECT * FROM visits ORDER BY day DESC, cost LIMIT 60;
PRAGMA integrity_check;
ANALYZE; VACUUM;
