import { isPlaceholder } from '../rows/values';
import { type Launch, launchOf } from './launch-lines';
import { lines, type Part } from './python';
import type { BundleFacts, BundleFile } from './target';

/** The port of machine 0 to which the processes of all machines connect. Source: torchrun's default. */
export const PORT = '29500';

/** Returns the port of machine 0: the one of the settings that were read, or torchrun's default. */
export function portOf(facts: BundleFacts): string {
  return launchOf(facts).port ?? PORT;
}

/** Returns a script that starts a training in its own folder, with the variables of the settings that were read. */
export function shellFile(
  path: string,
  facts: BundleFacts,
  comment: Part,
  { folder = '$(dirname "$0")', commands }: { readonly folder?: string; readonly commands: readonly Part[] },
): BundleFile {
  const body = lines(...commands);
  const variables = Object.entries(launchOf(facts).variables).flatMap(([name, value]) =>
    body.includes(`export ${name}=`) ? [] : [`export ${name}=${quoted(value)}`],
  );
  const text = lines('#!/usr/bin/env bash', comment, 'set -euo pipefail', `cd "${folder}"`, variables, body);
  return { path, text: `${text}\n`, isExecutable: true };
}

/** Writes a value as a word of bash. */
export function quoted(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}

/** Whether one machine meets no other one, at a port that torchrun chooses. */
function isAlone(facts: BundleFacts): boolean {
  const { port, rendezvous } = launchOf(facts);
  return facts.machines === 1 && port === undefined && Object.keys(rendezvous).length === 0;
}

/** Returns the comment of a script that is the same on every machine; its argument is the machine's number. `more`: variables of the call. */
export function startComment({ machines }: BundleFacts, more = ''): string {
  return machines === 1
    ? `# Starts all ranks of this machine: ${more}./launch.sh`
    : `# Run on every machine: ${more}MAIN=address-of-machine-0 ./launch.sh NUMBER, where NUMBER is 0 to ${machines - 1}.`;
}

/** Returns the lines that check the number of the machine, and that have the address of machine 0. */
export function mainLines(facts: BundleFacts): Part {
  const { machines } = facts;
  const { address = machines === 1 ? '127.0.0.1' : undefined } = launchOf(facts);
  if (isAlone(facts)) return null;
  return [
    ...(machines === 1 ? [] : [`: "\${1:?the number of this machine, 0 to ${machines - 1}}"`]),
    mainLine(address, facts),
  ];
}

/** Returns the line that has the address of machine 0, or demands it; a placeholder is no address. */
export function mainLine(address: string | undefined, facts: BundleFacts): string {
  if (address !== undefined && !isPlaceholder(address)) return `MAIN="\${MAIN:-${address}}"`;
  const instead = address === undefined ? '' : `, in place of ${address}`;
  return `: "\${MAIN:?the address of machine 0${instead}, which all machines reach on port ${portOf(facts)}}"`;
}

/**
 * Returns the options of torchrun for the machines, the ranks and the place where all processes meet. The rendezvous is static unless the
 * settings that were read have another one, because c10d needs hostnames that all machines know, and ignores --node-rank.
 */
export function torchrunOptions(facts: BundleFacts, ranks: string = `${facts.gpusPerMachine}`): string {
  const { machines } = facts;
  const { rendezvous } = launchOf(facts);
  const processes = `--nproc-per-node=${ranks}${restarts(facts)}`;
  if (isAlone(facts)) return `--standalone --nnodes=1 ${processes}`;
  const node = machines === 1 ? '0' : '"$1"';
  const place =
    Object.keys(rendezvous).length === 0
      ? `--master-addr="$MAIN" --master-port="\${PORT:-${portOf(facts)}}"`
      : meeting(rendezvous, { backend: 'c10d', endpoint: `"$MAIN:${portOf(facts)}"` });
  return `--nnodes=${machines} --node-rank=${node} ${processes} \\\n  ${place}`;
}

/** Returns torchrun's options of a rendezvous: those that were read, and the usual ones. */
function meeting(rendezvous: Launch['rendezvous'], usual: Readonly<Record<string, string>>): string {
  const said = Object.entries(rendezvous).map(([key, value]) => [key, quoted(value)]);
  return Object.entries({ ...usual, ...Object.fromEntries(said) })
    .map(([key, value]) => `--rdzv-${key}=${value}`)
    .join(' ');
}

/** Returns torchrun's options for failed processes, each after a blank. */
export function restarts(facts: BundleFacts): string {
  return Object.entries(launchOf(facts).restarts)
    .map(([name, value]) => ` --${name.replaceAll('_', '-')}=${value}`)
    .join('');
}

/** Returns launch.sh for torchrun. */
export function torchrunFile(facts: BundleFacts): BundleFile {
  const command = `exec torchrun ${torchrunOptions(facts, `"\${GPUS:-${facts.gpusPerMachine}}"`)} train.py`;
  return shellFile('launch.sh', facts, startComment(facts), { commands: [mainLines(facts), command] });
}

/**
 * Returns launch.sh for programs that call torchrun themselves: environment variables have the numbers of machines and ranks.
 */
export function environmentFile(facts: BundleFacts, ...commands: readonly Part[]): BundleFile {
  const { machines, gpusPerMachine } = facts;
  const rank = machines === 1 ? '' : 'NODE_RANK="$1" ';
  return shellFile('launch.sh', facts, startComment(facts), {
    commands: [
      mainLines(facts),
      `export NPROC_PER_NODE=${gpusPerMachine}`,
      machines > 1 && `export NNODES=${machines}`,
      !isAlone(facts) && `export ${rank}MASTER_ADDR="$MAIN" MASTER_PORT=${portOf(facts)}`,
      ...commands,
    ],
  });
}

/** Returns job.sbatch, which starts one torchrun per node; all of them connect to the first node. */
export function slurmFile(facts: BundleFacts): BundleFile {
  const { machines, gpusPerMachine } = facts;
  const usual = { backend: 'c10d', id: '"$SLURM_JOB_ID"', endpoint: `"$MAIN:${portOf(facts)}"` };
  const { path, text } = shellFile(
    'job.sbatch',
    facts,
    [
      '#SBATCH --job-name=train',
      `#SBATCH --nodes=${machines}`,
      '#SBATCH --ntasks-per-node=1',
      `#SBATCH --gpus-per-node=${gpusPerMachine}`,
      `#SBATCH --cpus-per-task=${8 * gpusPerMachine}`,
      '#SBATCH --output=%x-%j.log',
      '# Submit from this folder, which all nodes must see: sbatch job.sbatch. Add your --partition and --account.',
    ],
    {
      folder: '$SLURM_SUBMIT_DIR',
      commands: [
        'MAIN=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        `srun torchrun --nnodes=${machines} --nproc-per-node=${gpusPerMachine}${restarts(facts)} \\`,
        `  ${meeting(launchOf(facts).rendezvous, usual)} train.py`,
      ],
    },
  );
  return { path, text };
}

/** Returns launch.sh for DeepSpeed, and the hostfile of several machines. */
export function deepSpeedFiles(facts: BundleFacts): BundleFile[] {
  const { machines, gpusPerMachine } = facts;
  const { address, port, hosts } = launchOf(facts);
  const machineLines = Array.from({ length: machines }, (_, i) => `machine-${i} slots=${gpusPerMachine}`);
  const where = [
    machines === 1 ? `--num_gpus="\${GPUS:-${gpusPerMachine}}"` : '--hostfile=hostfile',
    // DeepSpeed meets at the first machine of its hostfile, unless another address is given.
    ...(hosts === undefined && address !== undefined && !isPlaceholder(address)
      ? [`--master_addr=${address}`]
      : []),
    ...(machines === 1 && port === undefined ? [] : [`--master_port="\${PORT:-${portOf(facts)}}"`]),
  ];
  const comment =
    machines === 1
      ? startComment(facts)
      : '# First write the names of your machines into hostfile. Then run this on machine-0 only: DeepSpeed starts the ranks of the other machines by ssh without a password.';
  const launch = shellFile('launch.sh', facts, comment, {
    commands: [`exec deepspeed ${where.join(' ')} train.py`],
  });
  return machines === 1
    ? [launch]
    : [launch, { path: 'hostfile', text: `${lines(hosts ?? machineLines)}\n` }];
}
