import { type BlockCall, LOSS_LINE, type ModelScript } from './model-parts';
import { lines } from './python';
import type { BundleModel } from './target';

/** Returns the Python code of a GPT. */
export function gptScript(
  { vocab, seq, dim, heads, layers, ffn = 4 * dim, tied }: Extract<BundleModel, { kind: 'gpt' }>,
  call: BlockCall,
): ModelScript {
  return {
    constants: lines(
      `VOCAB, SEQ, LAYERS = ${vocab}, ${seq}, ${layers}`,
      `DIM, HEADS, FFN = ${dim}, ${heads}, ${ffn}`,
    ),
    className: 'GPT',
    blockClass: 'Block',
    blocks: 'model.blocks',
    readOutside: ['model.wpe.weight', ...(tied ? ['model.wte.weight'] : [])],
    split: { columns: ['blocks.*.qkv', 'blocks.*.fc1'], rows: ['blocks.*.proj', 'blocks.*.fc2'] },
    classes: lines(
      BLOCK,
      '',
      '',
      'class GPT(nn.Module):',
      '    def __init__(self):',
      '        super().__init__()',
      '        self.wte, self.wpe = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)',
      '        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))',
      '        self.ln_f = nn.LayerNorm(DIM)',
      !tied && '        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)',
      '',
      '    def forward(self, ids, targets):',
      '        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]',
      call('self.blocks', 'x'),
      tied
        ? '        logits = F.linear(self.ln_f(x), self.wte.weight)'
        : '        logits = self.lm_head(self.ln_f(x))',
      LOSS_LINE,
    ),
  };
}

const BLOCK = lines(
  'class Block(nn.Module):',
  '    def __init__(self):',
  '        super().__init__()',
  '        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)',
  '        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)',
  '        self.fc1, self.fc2 = nn.Linear(DIM, FFN), nn.Linear(FFN, DIM)',
  '',
  '    def forward(self, x):',
  '        heads = (*x.shape[:2], -1, DIM // HEADS)',
  '        q, k, v = (part.view(heads).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, dim=-1))',
  '        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)',
  '        x = x + self.proj(mixed.transpose(1, 2).flatten(2))',
  '        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))',
);
