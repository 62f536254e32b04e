import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { freePort } from '../../src/launch/fleet';

/** Returns the programs of a list that this machine lacks. */
export function missing(programs: readonly string[]): string[] {
  return programs.filter((program) => {
    try {
      execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' });
      return false;
    } catch {
      return true;
    }
  });
}

/**
 * Starts Slurm with this machine as its only node, until the test ends; returns why it cannot. Empty files stand for the node's two GPUs.
 */
export async function startSlurm(context: TestContext): Promise<string | undefined> {
  const lacks = missing(['slurmctld', 'slurmd', 'srun']);
  if (lacks.length > 0) return `${lacks.join(', ')} are not installed (Debian: slurm-wlm)`;
  if (process.getuid?.() !== 0) return 'slurmd needs root';
  const folder = mkdtempSync(join(tmpdir(), 'slurm-'));
  const config = join(folder, 'slurm.conf');
  for (const gpu of ['gpu0', 'gpu1']) writeFileSync(join(folder, gpu), '');
  writeFileSync(join(folder, 'gres.conf'), `Name=gpu File=${join(folder, 'gpu[0-1]')}\n`);
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
    ...{ SelectType: 'select/cons_tres', SelectTypeParameters: 'CR_CPU', GresTypes: 'gpu' },
    // The node may have more CPUs than the machine.
    SlurmdParameters: 'config_overrides',
  };
  return [
    ...Object.entries(settings).map(([name, value]) => `${name}=${value}`),
    `NodeName=${host} NodeAddr=127.0.0.1 CPUs=16 Gres=gpu:2 State=UNKNOWN`,
    'PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP',
    '',
  ].join('\n');
}
