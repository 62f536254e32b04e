import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from './read-files';

// Scripts that write a file of settings themselves, and then name it.

test('a script that writes its DeepSpeed file by a here-document reads it, with the lines of the script', () => {
  const reading = readText(
    'train.sh',
    `#!/bin/bash
BATCH=4
cat > ds.json <<EOF
{
  "train_micro_batch_size_per_gpu": \${BATCH},
  "zero_optimization": { "stage": 2 },
  "bf16": { "enabled": true }
}
EOF
deepspeed --num_gpus 4 train.py --deepspeed ./ds.json --max_steps 10
`,
  );
  assert.deepEqual(
    [reading.world, reading.config.batch, reading.config.parallel?.strategy],
    [4, 4, 'ZERO_2'],
    JSON.stringify(reading.lines),
  );
  assert.match(whyOf(reading, 'cat'), /writes ds\.json, which is read if a launch names it/);
  const line = reading.lines.find(({ key }) => key === 'zero_optimization.stage');
  assert.deepEqual([line?.file, line?.line], ['train.sh', 6]);
});

test('a quoted end, tee, a second part, and a folder in a variable', () => {
  const reading = readText(
    'train.sh',
    `#!/bin/bash
DIR=configs
mkdir -p $DIR
cat <<'EOF' > $DIR/two.yaml
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: 1
EOF
cat >> $DIR/two.yaml << EOF
num_processes: $((2 * 2))
mixed_precision: bf16
EOF
tee hostfile <<-EOF
	node1 slots=2
	node2 slots=2
	EOF
accelerate launch --config_file "$DIR/two.yaml" train.py --max_steps 10
`,
  );
  assert.equal(reading.world, 4);
  assert.deepEqual(reading.config.mixedPrecision, { paramDtype: 'bfloat16', reduceDtype: 'float32' });
  assert.equal(reading.lines.find(({ key }) => key === 'mixed_precision')?.line, 11);
  assert.match(whyOf(reading, 'tee'), /writes hostfile/);
});

test('what the script writes replaces a file that is there, also a script of Python', () => {
  const cwd = folderOf({
    'train.py': 'from torch.nn.parallel import DistributedDataParallel\nDistributedDataParallel(model)\n',
    'launch.sh': `cat > train.py <<'EOF'
from torch.distributed.fsdp import fully_shard
fully_shard(model)
EOF
torchrun --nproc_per_node 2 train.py
`,
  });
  const reading = readConfig('launch.sh', { cwd });
  assert.equal(reading.config.parallel?.strategy, 'FULL_SHARD');
  assert.equal(effects(reading)['train.py'], 'used');
});

test('a here-document with an error names the line of the script', () => {
  const reading = readText(
    'train.sh',
    'cat > ds.json <<EOF\n{ "zero_optimization": { "stage": 2 },\n  "bf16": \n}}\nEOF\ndeepspeed train.py --deepspeed ds.json\n',
  );
  assert.equal(effects(reading)['--deepspeed'], 'error');
  assert.match(whyOf(reading, '--deepspeed'), /^train\.sh:4:/);
});

test('of the branches of an if, the first one that writes the file is read', () => {
  const zero = (stage: number) =>
    `cat > "$FILE" <<EOF\n{ "zero_optimization": { "stage": ${stage} } }\nEOF\n`;
  const reading = readText(
    'train.sh',
    `FILE=ds.json\nif [ $1 = a ]; then\n${zero(3)}elif [ $1 = b ]; then\n${zero(1)}fi\ndeepspeed train.py --deepspeed --deepspeed_config=$FILE\n`,
  );
  assert.equal(reading.config.parallel?.strategy, 'FULL_SHARD');
});
