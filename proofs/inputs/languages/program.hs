-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Lazy values, type classes, exceptions, threads and a garbage collection.
module Main where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.IORef
import Data.List (foldl')
import qualified Data.Map as Map
import System.Mem

data Tree = Leaf | Node Tree Int Tree

insert :: Int -> Tree -> Tree
insert x Leaf = Node Leaf x Leaf
insert x tree@(Node left y right)
  | x < y = Node (insert x left) y right
  | x > y = Node left y (insert x right)
  | otherwise = tree
{-# NOINLINE insert #-}

size :: Tree -> Int
size Leaf = 0
size (Node left _ right) = size left + 1 + size right
{-# NOINLINE size #-}

fib :: Int -> Integer
fib n = if n < 2 then toInteger n else fib (n - 1) + fib (n - 2)
{-# NOINLINE fib #-}

deep :: Int -> Int
deep 0 = 0
deep n = 1 + deep (n - 1)
{-# NOINLINE deep #-}

main :: IO ()
main = do
  print (fib 20)
  print (size (foldl' (flip insert) Leaf [(i * 7919) `mod` 10007 | i <- [1 .. 4000]]))
  print (Map.toList (Map.fromListWith (+) [(i `mod` 5, i) | i <- [1 .. 1000 :: Int]]))
  divided <- try (evaluate (1 `div` (0 :: Int))) :: IO (Either ArithException Int)
  print divided
  empty <- try (evaluate (head [])) :: IO (Either SomeException Int)
  putStrLn (either (const "no head") show empty)
  print (deep 200000)
  sums <- forM [1 .. 4] $ \i -> do
    done <- newEmptyMVar
    _ <- forkIO (evaluate (sum [i .. 1000 * i]) >>= putMVar done)
    return done
  mapM takeMVar sums >>= print
  counter <- newIORef (0 :: Int)
  forM_ [1 .. 1000] (\i -> modifyIORef' counter (+ i))
  performGC
  readIORef counter >>= print
