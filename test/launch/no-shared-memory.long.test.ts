import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryFolder } from '../session/job-fixture';

const LAUNCH = join(__dirname, '..', '..', 'src', 'session', 'run', 'launch.js');
const COMMAND = join(__dirname, '..', '..', 'src', 'cli', 'main.js');

/** Makes koffi's library fail to load, in this process and in the ranks that inherit NODE_OPTIONS. */
const NO_KOFFI = `
  const { dlopen } = process;
  process.dlopen = (module, file, ...rest) => {
    if (file.includes('koffi')) throw new Error(file + ' is refused');
    return dlopen.call(process, module, file, ...rest);
  };`;

/** Launches without a choice of transport, and prints the transport with a sum over the ranks. */
const PROGRAM = `
  const { launch } = require(${JSON.stringify(LAUNCH)});
  (async () => {
    const demanded = await launch({ ranks: 2, transport: 'shared-memory' }).catch((error) => error);
    const job = await launch({ ranks: 2, blas: 'none' });
    const sums = await job.on('all').run(({ dist, tf, rank }) => {
      const x = tf.fill([2], rank + 1);
      dist.allReduce(x);
      return [...x.dataSync()];
    });
    console.log(JSON.stringify([job.ranks[0].transport, sums, demanded.code, demanded.message]));
    await job.shutdown();
  })();`;

type Told = readonly [transport: string, sums: number[][], code: string, message: string];

test('if koffi does not load, ranks exchange tensors over zeromq, and the doctor says so', async (context) => {
  const preload = join(temporaryFolder(context).path, 'no-koffi.js');
  writeFileSync(preload, NO_KOFFI);
  const env = { ...process.env, NODE_OPTIONS: `--require ${preload}` };
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', PROGRAM], { env });
  assertFallback(JSON.parse(stdout), /koffi does not load.*launch with transport: 'zeromq'/s);
  const doctor = await promisify(execFile)(process.execPath, [COMMAND, 'doctor', '--json'], { env }).catch(
    // Another missing part (a kernelspec, say) ends the doctor with status 1; only the text counts here.
    (failed: { stdout: string }) => failed,
  );
  const { checks } = JSON.parse(doctor.stdout) as {
    checks: { name: string; facts?: object; advice?: string }[];
  };
  const check = checks.find(({ name }) => name === 'shared memory');
  assert.deepEqual(check?.facts, { plane: 'zeromq' });
  assert.match(check?.advice ?? '', /over zeromq instead/);
  assert.match(checks.find(({ name }) => name === 'BLAS')?.advice ?? '', /WebAssembly/);
});

test('if the memory file is refused, ranks exchange tensors over zeromq', {
  skip: !existsSync('/bin/sh') && 'needs a shell to set a limit',
}, async () => {
  const limited = ['-c', 'ulimit -f 1000; exec "$0" -e "$1"', process.execPath, PROGRAM];
  const { stdout } = await promisify(execFile)('/bin/sh', limited);
  assertFallback(JSON.parse(stdout), /ftruncate to \d+ bytes failed with errno 27/);
});

function assertFallback([transport, sums, code, message]: Told, reason: RegExp): void {
  assert.equal(transport, 'zeromq');
  assert.deepEqual(sums, [
    [3, 3],
    [3, 3],
  ]);
  assert.equal(code, 'TRANSPORT');
  assert.match(message, reason);
}
