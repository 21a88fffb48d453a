-- SPDX-License-Identifier: MIT OR Apache-2.0
CREATE VIRTUAL TABLE notes USING fts5(title, body);
CREATE VIRTUAL TABLE places USING rtree(id, west, east, south, north);
CREATE TABLE readings(sensor INT, at INT, value REAL, flags TEXT);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 400)
INSERT INTO notes SELECT 'note ' || i, 'river ' || (i * 13 % 29) || ' stone ' || (i * 7 % 31) || CASE WHEN i % 4 THEN ' delta' ELSE ' silt' END FROM n;
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
INSERT INTO places SELECT i, i % 40, i % 40 + 2, i / 40.0, i / 40.0 + 1 FROM n;
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
INSERT INTO readings SELECT i % 9, i * 60, abs((i * 7919) % 1000 - 500) / 10.0, json_object('ok', i % 5 > 0, 'run', i / 100) FROM n;
CREATE INDEX by_sensor ON readings(sensor, at);
SELECT title FROM notes WHERE notes MATCH 'silt AND river' ORDER BY rank LIMIT 20;
SELECT highlight(notes, 1, '<', '>') FROM notes WHERE notes MATCH 'stone NEAR delta' LIMIT 15;
SELECT count(*), min(west), max(north) FROM places WHERE west >= 5 AND east <= 20 AND south >= 2;
SELECT sensor, at, avg(value) OVER (PARTITION BY sensor ORDER BY at ROWS 10 PRECEDING) FROM readings WHERE at % 7200 = 0;
SELECT sensor, sum(value) FILTER (WHERE flags ->> 'ok') AS good, count(*) FROM readings GROUP BY sensor HAVING good > 10;
SELECT json_extract(flags, '$.run') AS run, group_concat(sensor, '') FROM readings WHERE value > 45 GROUP BY run;
UPDATE readings SET value = value * 1.1 WHERE sensor IN (SELECT sensor FROM readings GROUP BY sensor ORDER BY sum(value) LIMIT 3);
DELETE FROM notes WHERE title IN ('note 5', 'note 77', 'note 300');
INSERT INTO notes(notes) VALUES('optimize');
SELECT a.sensor, b.sensor, count(*) FROM readings a JOIN readings b ON b.at = a.at + 540 WHERE a.value > b.value GROUP BY 1, 2;
SELECT upper(substr(title, 6)), length(body), instr(body, 'stone') FROM notes ORDER BY 2 DESC, 1 LIMIT 40;
