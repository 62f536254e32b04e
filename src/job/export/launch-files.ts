import { lines } from './python';
import type { BundleFacts, BundleFile } from './target';

/** The port of machine 0 to which the processes of all machines connect. Source: torchrun's default. */
export const PORT = 29500;

/** Returns launch.sh for torchrun. The file is the same on every machine; its argument is the machine's number. */
export function torchrunFile({ machines, gpusPerMachine }: BundleFacts): BundleFile {
  const text =
    machines === 1
      ? lines(
          '#!/usr/bin/env bash',
          '# Starts all ranks of this machine: ./launch.sh',
          'set -euo pipefail',
          'cd "$(dirname "$0")"',
          `exec torchrun --standalone --nnodes=1 --nproc-per-node="\${GPUS:-${gpusPerMachine}}" train.py`,
        )
      : lines(
          '#!/usr/bin/env bash',
          `# Run on every machine: MAIN=address-of-machine-0 ./launch.sh NUMBER, where NUMBER is 0 to ${machines - 1}.`,
          'set -euo pipefail',
          'cd "$(dirname "$0")"',
          `: "\${1:?the number of this machine, 0 to ${machines - 1}}"`,
          `: "\${MAIN:?the address of machine 0, which all machines reach on port ${PORT}}"`,
          // The rendezvous is static, because c10d needs hostnames that all machines know, and ignores --node-rank.
          `exec torchrun --nnodes=${machines} --node-rank="$1" --nproc-per-node="\${GPUS:-${gpusPerMachine}}" \\`,
          `  --master-addr="$MAIN" --master-port="\${PORT:-${PORT}}" train.py`,
        );
  return { path: 'launch.sh', text: `${text}\n`, isExecutable: true };
}

/**
 * Returns the lines that set the numbers of machines and ranks as environment variables, for swift and LLaMA-Factory,
 * which call torchrun themselves.
 */
export function environmentLines({ machines, gpusPerMachine }: BundleFacts): readonly string[] {
  const isOne = machines === 1;
  return [
    isOne
      ? '# Starts all ranks of this machine: ./launch.sh'
      : `# Run on every machine: MAIN=address-of-machine-0 ./launch.sh NUMBER (0 to ${machines - 1})`,
    'set -euo pipefail',
    'cd "$(dirname "$0")"',
    ...(isOne ? [] : [`: "\${1:?the number of this machine}" "\${MAIN:?the address of machine 0}"`]),
    `export NPROC_PER_NODE=${gpusPerMachine}`,
    ...(isOne
      ? []
      : [`export NNODES=${machines}`, `export NODE_RANK="$1" MASTER_ADDR="$MAIN" MASTER_PORT=${PORT}`]),
  ];
}

/** Returns job.sbatch, which starts one torchrun per node; all of them connect to the first node. */
export function slurmFile({ machines, gpusPerMachine }: BundleFacts, script = 'train.py'): BundleFile {
  const text = lines(
    '#!/usr/bin/env bash',
    '#SBATCH --job-name=train',
    `#SBATCH --nodes=${machines}`,
    '#SBATCH --ntasks-per-node=1',
    `#SBATCH --gpus-per-node=${gpusPerMachine}`,
    `#SBATCH --cpus-per-task=${8 * gpusPerMachine}`,
    '#SBATCH --output=%x-%j.log',
    '# Submit from this folder, which all nodes must see: sbatch job.sbatch. Add your --partition and --account.',
    'set -euo pipefail',
    'cd "$SLURM_SUBMIT_DIR"',
    'MAIN=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
    `srun torchrun --nnodes=${machines} --nproc-per-node=${gpusPerMachine} \\`,
    `  --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MAIN:${PORT}" ${script}`,
  );
  return { path: 'job.sbatch', text: `${text}\n` };
}

/** Returns a PyTorchJob of the Kubeflow training operator; the bundle is on a volume that all pods mount. */
export function kubernetesFile({ machines, gpusPerMachine }: BundleFacts, image: string): BundleFile {
  const command =
    `pip install -r requirements.txt && torchrun --nnodes=${machines} --nproc-per-node=${gpusPerMachine} ` +
    '--node-rank="$RANK" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py';
  const replicas = (name: string, count: number): string =>
    lines(
      `    ${name}:`,
      `      replicas: ${count}`,
      '      restartPolicy: OnFailure',
      '      template:',
      '        spec:',
      '          containers:',
      '            - name: pytorch',
      `              image: ${image}`,
      '              workingDir: /bundle',
      '              command: ["bash", "-c"]',
      `              args: [${JSON.stringify(command)}]`,
      '              resources:',
      '                limits:',
      `                  nvidia.com/gpu: ${gpusPerMachine}`,
      '              volumeMounts:',
      '                - { name: bundle, mountPath: /bundle }',
      '                - { name: shm, mountPath: /dev/shm }',
      '          volumes:',
      '            - name: bundle',
      '              persistentVolumeClaim: { claimName: bundle }',
      '            - name: shm',
      '              emptyDir: { medium: Memory }',
    );
  const text = lines(
    '# A job of the Kubeflow training operator. Copy this folder to the volume claim "bundle", which all nodes can mount.',
    'apiVersion: kubeflow.org/v1',
    'kind: PyTorchJob',
    'metadata:',
    '  name: train',
    'spec:',
    `  nprocPerNode: "${gpusPerMachine}"`,
    '  pytorchReplicaSpecs:',
    replicas('Master', 1),
    machines > 1 && replicas('Worker', machines - 1),
  );
  return { path: 'pytorchjob.yaml', text: `${text}\n` };
}

/** Returns launch.sh for DeepSpeed, and the hostfile of several machines. */
export function deepSpeedFiles({ machines, gpusPerMachine }: BundleFacts): BundleFile[] {
  const hosts =
    machines === 1
      ? []
      : [
          {
            path: 'hostfile',
            text: Array.from({ length: machines }, (_, i) => `machine-${i} slots=${gpusPerMachine}\n`).join(
              '',
            ),
          },
        ];
  const where =
    machines === 1
      ? `--num_gpus="\${GPUS:-${gpusPerMachine}}"`
      : `--hostfile=hostfile --master_port="\${PORT:-${PORT}}"`;
  const text = lines(
    '#!/usr/bin/env bash',
    machines === 1
      ? '# Starts all ranks of this machine: ./launch.sh'
      : '# First write the names of your machines into hostfile. Then run this on machine-0 only: DeepSpeed starts the ranks of the other machines by ssh without a password.',
    'set -euo pipefail',
    'cd "$(dirname "$0")"',
    `exec deepspeed ${where} train.py`,
  );
  return [{ path: 'launch.sh', text: `${text}\n`, isExecutable: true }, ...hosts];
}
