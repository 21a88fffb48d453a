-- SPDX-License-Identifier: MIT OR Apache-2.0
CREATE TABLE items(sku TEXT PRIMARY KEY, kind TEXT NOT NULL, price REAL CHECK (price >= 0), stock INT DEFAULT 5) WITHOUT ROWID;
CREATE TABLE sales(id INTEGER PRIMARY KEY AUTOINCREMENT, sku TEXT, amount INT, at TEXT);
CREATE TRIGGER sold AFTER INSERT ON sales BEGIN UPDATE items SET stock = stock - new.amount WHERE sku = new.sku; END;
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
INSERT INTO items(sku, kind, price, stock) SELECT printf('S%05d', i * 37 % 99991), 'kind' || (i % 11), i * 0.75, 50 FROM n;
INSERT INTO sales(sku, amount, at) SELECT sku, 1 + rowid_ % 5, datetime('2010-03-04', '+' || rowid_ || ' hours') FROM (SELECT sku, row_number() OVER (ORDER BY price) AS rowid_ FROM items);
CREATE INDEX sales_at ON sales(at); CREATE INDEX items_kind ON items(kind, price DESC);
SELECT kind, price, rank() OVER (PARTITION BY kind ORDER BY price DESC) AS place FROM items WHERE stock < 49 ORDER BY kind, place LIMIT 80;
SELECT strftime('%Y-%m-%d', at) AS day, sum(amount) FILTER (WHERE amount > 2) FROM sales GROUP BY day ORDER BY day;
SELECT json_group_array(json_object('sku', sku, 'price', price)) FROM items WHERE kind = 'kind4';
SELECT value ->> 'sku' FROM json_each((SELECT json_group_array(json_object('sku', sku)) FROM items WHERE price > 150)) LIMIT 25;
INSERT INTO items(sku, kind, price) SELECT sku, kind, price FROM items WHERE kind = 'kind2' ON CONFLICT(sku) DO UPDATE SET price = excluded.price * 2;
CREATE VIEW dear AS SELECT kind, max(price) AS top FROM items GROUP BY kind;
SELECT d.kind, d.top, i.sku FROM dear d LEFT JOIN items i ON i.kind = d.kind AND i.price = d.top ORDER BY d.top;
SELECT sku FROM items WHERE sku GLOB 'S0[1-4]*' EXCEPT SELECT sku FROM sales WHERE amount = 3 ORDER BY 1;
SELECT CASE WHEN price < 50 THEN 'low' WHEN price BETWEEN 50 AND 120 THEN 'middle' ELSE 'high' END AS class, count(DISTINCT kind), total(stock) FROM items GROUP BY class;
DELETE FROM sales WHERE id % 3 = 0; UPDATE sales SET amount = amount * 2 WHERE at > '2010-03-10';
WITH RECURSIVE t(n, a, b) AS (SELECT 1, 0, 1 UNION ALL SELECT n + 1, b, a + b FROM t WHERE n < 60) SELECT n, a, hex(a), typeof(a) FROM t;
.mode column
EXPLAIN QUERY PLAN SELECT * FROM sales JOIN items USING (sku) WHERE kind = 'kind3';
SELECT s.id, replace(i.kind, 'kind', 'sort '), trim(s.at), quote(i.price) FROM sales s JOIN items i USING (sku) ORDER BY i.price % 7, s.id LIMIT 90;
SAVEPOINT a; DROP VIEW dear; ALTER TABLE items ADD COLUMN note TEXT; RELEASE a;
