import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StepPoint } from '../../src/core/events';
import { Recorder } from '../../src/ledger/recorder';

const POINT: StepPoint = { name: 'optimizer', module: '' };

test('points reach all listeners in the order in which they were added, until they are removed', () => {
  const recorder = new Recorder({ rank: 0, world: 1 });
  const listens = () => recorder.reached !== undefined;
  assert.equal(listens(), false);
  const heard: string[] = [];
  const listen = (name: string) =>
    recorder.points.add(({ name: point }) => {
      heard.push(`${name}: ${point}`);
      return undefined;
    });
  const [first, second] = [listen('first'), listen('second')];
  recorder.reached?.(POINT);
  assert.deepEqual(heard, ['first: optimizer', 'second: optimizer']);
  first();
  recorder.reached?.(POINT);
  assert.equal(heard.at(-1), 'second: optimizer');
  second();
  assert.equal(listens(), false);
});

test('the actions of several listeners are done one after the other', () => {
  const { points } = new Recorder({ rank: 0, world: 1 });
  points.add(() => ({ times: 0, got: ([values]) => values?.fill(3) }));
  points.add(() => undefined);
  const seen: number[] = [];
  points.add(() => ({ got: ([values]) => seen.push(...(values ?? [])), swaps: true }));
  const action = points.reached?.(POINT);
  action?.got?.([new Float32Array([1, 2])]);
  assert.deepEqual(seen, [3, 3]);
  assert.deepEqual([action?.times, action?.swaps, action?.brings], [0, true, undefined]);
});
