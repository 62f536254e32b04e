import { join } from 'node:path';
import type { Cluster, CommandHost } from '../launch';

/** A command of this machine that starts ranks. */
export interface AgentCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** The first line of the command's standard input. The input stays open until the command must end. */
  readonly order?: string;
}

/** The ranks that the commands start, and their Python, variables and hosts. */
export interface AgentPlan {
  readonly cluster: Cluster;
  readonly python: string;
  readonly numRanks: number;
  /** The MASTER_PORT of ranks. Ranks find each other by the control link; the port is for programs that expect the variable. */
  readonly freePort: number;
  /** The folder of the Python package. */
  readonly packages: string;
  readonly baseDir: string;
  /** The environment variables that ranks need, such as the job's key. */
  readonly variables: Readonly<Record<string, string>>;
  /** The environment of this process. */
  readonly env: NodeJS.ProcessEnv;
}

const PROGRAM = ['-m', 'shardlab_torch'] as const;

/** Name of the variable that gives ranks the number of their host and the number of hosts, as '1/4'. */
const NODE = 'SHARDLAB_NODE';

/** Returns the commands that start a job's ranks. */
export function agentCommands(plan: AgentPlan): AgentCommand[] {
  const { launcher, hosts } = plan.cluster;
  if (launcher === 'mpirun') return [mpirun(plan)];
  if (launcher === 'slurm') return [srun(plan)];
  if (hosts.length > 0) return hosts.map((host, node) => onHost(plan, host, node));
  return [
    {
      file: plan.python,
      args: torchrun(plan, 1, '127.0.0.1'),
      env: { ...plan.env, ...plan.variables },
    },
  ];
}

/**
 * Returns the arguments of one host's torchrun. The agent checks its processes twice per second, restarts none, and leaves no log
 * folder. It knows only the ranks of its own host.
 */
function torchrun({ numRanks, freePort }: AgentPlan, nodes: number, host: string): string[] {
  const flags = {
    nnodes: 1,
    'nproc-per-node': numRanks / nodes,
    'max-restarts': 0,
    'rdzv-endpoint': `${host}:${freePort}`,
    'monitor-interval': 0.5,
    'log-dir': '/dev/null',
  };
  const given = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return ['-m', 'shardlab_torch.agent', ...given, ...PROGRAM];
}

/** Returns the command that starts an agent of torchrun on a host, under a guard that ends the agent when this process ends. */
function onHost(plan: AgentPlan, { run }: CommandHost, node: number): AgentCommand {
  const { python, packages, baseDir, variables, numRanks, env, cluster } = plan;
  const { hosts, launcher } = cluster;
  const args = torchrun(plan, hosts.length, hosts[0]?.address ?? '');
  const guard = [python, '-I', join(packages, 'shardlab_torch', 'host.py')];
  // ssh gives its arguments to a shell.
  const command = launcher === 'ssh' ? [guard.map(quoted).join(' ')] : guard;
  const [file = '', ...before] = run;
  const placed = { ...variables, [NODE]: `${node}/${hosts.length}` };
  const order = { argv: [python, ...args], env: placed, folder: baseDir, ranks: numRanks / hosts.length };
  return { file, args: [...before, ...command], env, order: JSON.stringify(order) };
}

function mpirun({ cluster, python, numRanks, freePort, variables, env }: AgentPlan): AgentCommand {
  const { hosts } = cluster;
  const perHost = numRanks / Math.max(1, hosts.length);
  const place = placeVariables(hosts[0]?.address ?? '127.0.0.1', freePort);
  const exported = Object.keys({ ...variables, ...place }).flatMap((name) => ['-x', name]);
  const where =
    hosts.length === 0
      ? ['--oversubscribe']
      : ['--host', hosts.map(({ address }) => `${address}:${perHost}`).join(',')];
  const args = ['-np', String(numRanks), ...where, '--bind-to', 'none', ...exported, python, ...PROGRAM];
  return { file: 'mpirun', args, env: withoutPlace({ ...env, ...variables, ...place }) };
}

/** Without hosts, ranks find the first node in Slurm's own variables. */
function srun({ cluster, python, numRanks, freePort, variables, env }: AgentPlan): AgentCommand {
  const { hosts, partition } = cluster;
  const nodes =
    hosts.length === 0
      ? []
      : ['--nodes', String(hosts.length), '--nodelist', hosts.map(({ address }) => address).join(',')];
  const chosen = partition === undefined ? [] : ['--partition', partition];
  const args = [
    '--ntasks',
    String(numRanks),
    ...nodes,
    ...chosen,
    '--kill-on-bad-exit=1',
    '--export=ALL',
    '--overcommit',
    python,
    ...PROGRAM,
  ];
  const place = placeVariables(hosts[0]?.address, freePort);
  return { file: 'srun', args, env: withoutPlace({ ...env, ...variables, ...place }) };
}

function placeVariables(host: string | undefined, port: number): Record<string, string> {
  return { MASTER_PORT: String(port), ...(host === undefined ? {} : { MASTER_ADDR: host }) };
}

/** Removes the variables of another job's rank, because new ranks would use them as their own. */
function withoutPlace({
  RANK: _,
  LOCAL_RANK: __,
  WORLD_SIZE: ___,
  ...env
}: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return env;
}

/** Returns a word in quotes for a shell. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
