import {
  type BundleFacts,
  type BundleFile,
  launchOf,
  lines,
  registerPrograms,
  restarts,
  TORCH,
  withVideos,
} from '../../programs/toolkit';

// Kubernetes, by the training operator of Kubeflow.
registerPrograms({
  name: 'Kubernetes',
  order: 120,
  keys: [],
  write: {
    kubernetes: withVideos(
      {
        order: 65,
        ...TORCH,
        says: "PyTorch under Kubernetes (Kubeflow's PyTorchJob)",
        notes: (facts) => [
          ...TORCH.notes(facts),
          'Pods install PyTorch into the image python:3.12 at each start; an image that has PyTorch starts faster.',
        ],
        start: () => 'copy this folder to the volume claim "bundle", then kubectl apply -f pytorchjob.yaml',
      },
      (facts) => kubernetesFile(facts, 'python:3.12'),
    ),
  },
});

/** Returns a PyTorchJob of the Kubeflow training operator; the bundle is on a volume that all pods mount. */
function kubernetesFile(facts: BundleFacts, image: string): BundleFile {
  const { machines, gpusPerMachine } = facts;
  const variables = Object.entries(launchOf(facts).variables);
  const command =
    `pip install -r requirements.txt && torchrun --nnodes=${machines} --nproc-per-node=${gpusPerMachine}${restarts(facts)} ` +
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
      variables.length > 0 && '              env:',
      variables.map(
        ([name, value]) => `                - { name: ${name}, value: ${JSON.stringify(value)} }`,
      ),
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
