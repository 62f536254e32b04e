import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { repositoryRoot } from '../support/paths';
import { listenersOf, noStranger, playStranger, secretsOf } from '../support/stranger';
import { descendantsOf } from '../torch/torch-fixture';
import { type Lab, noPython, startLab } from './lab';

test('another user reads no file with the token or a key of npm start, and gets nothing from the ports of its server and kernels', {
  skip: noPython || noStranger,
}, async (context) => {
  const log = join(repositoryRoot(), 'build', 'jupyter.log');
  writeFileSync(log, 'a log of an earlier version', { mode: 0o644 });
  const lab = await startLab(context, ['--port', '18952']);
  const { origin, search } = new URL(lab.url);
  const kernel = await fetch(`${origin}/api/kernels${search}`, { method: 'POST' });
  assert.equal(kernel.status, 201);
  const { id } = (await kernel.json()) as { readonly id: string };
  const pids = await kernelOf(lab);
  const runtime = runtimeFolder();
  const secrets = readdirSync(runtime)
    .filter((name) => name.includes(id) || pids.some((pid) => name.includes(`-${pid}`)))
    .map((name) => join(runtime, name));
  assert.ok(secrets.length >= 2, 'the connection file of the kernel, and the file of the server');
  const listeners = listenersOf(pids);
  for (const { host } of listeners) assert.match(host, /^(127\.0\.0\.1|::1)$/);
  const { visits, read } = await playStranger(listeners, [log, ...secrets, ...secretsOf(pids)]);
  assert.deepEqual(read, []);
  for (const { got } of visits) {
    const text = Buffer.from(got, 'base64').toString('latin1');
    assert.ok(text.length < 200 || /^HTTP\/1.1 (40\d|302) /.test(text), text);
  }
  assert.equal((await fetch(`${origin}/api/kernels/${id}${search}`)).status, 200);
});

/** Returns the processes of a lab when its server, and the five sockets of its kernel, listen. */
async function kernelOf(lab: Lab): Promise<readonly number[]> {
  const deadline = performance.now() + 60e3;
  for (;;) {
    const pids = descendantsOf(lab.child.pid ?? 0);
    if (listenersOf(pids).length >= 6) return pids;
    assert.ok(performance.now() < deadline, 'the kernel does not listen');
    await setTimeout(100);
  }
}

/** Returns the folder in which Jupyter stores tokens and keys. */
function runtimeFolder(): string {
  const program = 'import jupyter_core.paths as p; print(p.jupyter_runtime_dir())';
  return spawnSync(process.env.SHARDLAB_PYTHON ?? '', ['-c', program], { encoding: 'utf8' }).stdout.trim();
}
