import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { freePort } from '../../../src/job/launch/fleet';
import type { LaunchOptions } from '../../../src/job/launch/options';
import { GPT, launchTorch } from './torch-fixture';

/** Returns the programs of a list that this machine lacks. */
function missing(programs: readonly string[]): string[] {
  return programs.filter((program) => {
    try {
      execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' });
      return false;
    } catch {
      return true;
    }
  });
}

/** Trains on two ranks; returns the losses. Each failure of one rank is recovered, which makes the groups anew. */
async function train(context: TestContext, options: Partial<LaunchOptions>): Promise<readonly number[]> {
  const job = await launchTorch(context, { ranks: 2, ...options });
  for (let failure = 0; failure < 5; failure++)
    await assert.rejects(job.on(0).python('1 / 0'), /ZeroDivisionError/);
  const run = await job.train({ model: GPT, batch: 2, seed: 5, parallel: { strategy: 'FULL_SHARD' } });
  await run.step(3);
  await job.shutdown();
  return run.losses;
}

test('ranks that mpirun starts train as those of torchrun do', async (context) => {
  if (missing(['mpirun']).length > 0) return context.skip('mpirun is not installed (Debian: openmpi-bin)');
  // Open MPI refuses root without these.
  for (const name of ['OMPI_ALLOW_RUN_AS_ROOT', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM']) process.env[name] = '1';
  const expected = await train(context, {});
  assert.deepEqual(await train(context, { launcher: 'mpirun' }), expected);
});

test('ranks that Slurm starts train as those of torchrun do', async (context) => {
  const lacks = missing(['slurmctld', 'slurmd', 'srun']);
  if (lacks.length > 0) return context.skip(`${lacks.join(', ')} are not installed (Debian: slurm-wlm)`);
  if (process.getuid?.() !== 0) return context.skip('slurmd needs root');
  const refused = await startSlurm(context);
  if (refused !== undefined) return context.skip(refused);
  const expected = await train(context, {});
  const slurm = { launcher: 'slurm', partition: 'debug', interface: 'lo' } as const;
  assert.deepEqual(await train(context, slurm), expected);
});

/** Starts Slurm with this machine as its only node, until the test ends; returns why it does not start, if it does not. */
async function startSlurm(context: TestContext): Promise<string | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'slurm-'));
  const config = join(folder, 'slurm.conf');
  writeFileSync(config, slurmConfig(folder, await freePort(), await freePort()));
  for (const name of ['state', 'spool']) mkdirSync(join(folder, name));
  process.env.SLURM_CONF = config;
  const daemons = [['slurmctld', '-D', '-c'] as const, ['slurmd', '-D'] as const].map(([file, ...args]) =>
    spawn(file, args, { stdio: 'ignore' }),
  );
  context.after(async () => {
    delete process.env.SLURM_CONF;
    await Promise.all(daemons.map(end));
    rmSync(folder, { recursive: true, force: true });
  });
  try {
    execFileSync('srun', ['--immediate=30', 'true'], { stdio: 'pipe', timeout: 60_000 });
    return undefined;
  } catch (error) {
    return `Slurm does not start here: ${String((error as { stderr?: Buffer }).stderr).trim()}`;
  }
}

function end(daemon: ChildProcess): Promise<unknown> {
  const ended = new Promise((resolve) => daemon.once('exit', resolve));
  daemon.kill();
  return daemon.exitCode === null ? ended : Promise.resolve();
}

function slurmConfig(folder: string, controlPort: number, nodePort: number): string {
  const host = hostname();
  const settings = {
    ...{ ClusterName: 'test', SlurmctldHost: `${host}(127.0.0.1)`, SlurmUser: 'root' },
    ...{ SlurmctldPort: controlPort, SlurmdPort: nodePort, AuthType: 'auth/none', CredType: 'cred/none' },
    ...{ ProctrackType: 'proctrack/pgid', TaskPlugin: 'task/none', MpiDefault: 'none', ReturnToService: 2 },
    ...{ SlurmctldPidFile: join(folder, 'ctld.pid'), SlurmdPidFile: join(folder, 'd.pid') },
    ...{ SlurmdSpoolDir: join(folder, 'spool'), StateSaveLocation: join(folder, 'state') },
    ...{ SelectType: 'select/cons_tres', SelectTypeParameters: 'CR_CPU' },
  };
  return [
    ...Object.entries(settings).map(([name, value]) => `${name}=${value}`),
    `NodeName=${host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN`,
    'PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP',
    '',
  ].join('\n');
}
