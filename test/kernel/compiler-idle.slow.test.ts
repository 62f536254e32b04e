import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { after, describe, it } from 'node:test';
import { CompilerClient } from '../../kernel/front/compiler-client';
import { findInstallation } from '../../src/core/installation';
import { compilerOf, goneIn, NO_PROC } from './processes';

describe('a compiler that ends when it is idle', { skip: NO_PROC }, () => {
  const client = new CompilerClient({ baseDir: tmpdir(), installation: findInstallation() }, 300);
  after(() => client.end());

  const compile = (source: string, cell: number) =>
    client.call('compile', { source, namespace: 'notebook', cell });

  it('has ended after a while without a call, and the next one knows all names', async () => {
    const first = await compile('const point = { x: 1 };', 1);
    assert.ok(first.ok);
    await client.call('commit', first.declaration);
    await goneIn([await compilerOf(process.pid)]);
    assert.ok((await compile('point.x + 1', 2)).ok);
    const wrong = await compile('point.y', 3);
    assert.match(wrong.ok ? '' : wrong.error.evalue, /Property 'y' does not exist/);
  });

  it('ends between the check of a cell and its commit, if the cell runs long', async () => {
    const cell = await compile('const later = 3;', 4);
    assert.ok(cell.ok);
    await goneIn([await compilerOf(process.pid)]);
    await client.call('commit', cell.declaration);
    assert.ok((await compile('later + 1', 5)).ok);
  });
});
