import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasSnapshot, snapshotPlace } from '../../kernel/compiler/snapshot';
import { repositoryRoot } from '../support/paths';

test('the set-up of the tests saved a heap snapshot of the compiler', () => {
  assert.ok(
    hasSnapshot(snapshotPlace(repositoryRoot())),
    'the compiler cannot be loaded into a snapshot, so kernels start more slowly',
  );
});
