import { llamaFfn } from '../../config/families/kinds';
import { type BlockCall, LOSS_LINE, type ModelScript } from './model-parts';
import { lines, pythonValue } from './python';
import type { BundleModel } from './target';

/** Returns the Python code of a Llama. */
export function llamaScript(shape: Extract<BundleModel, { kind: 'llama' }>, call: BlockCall): ModelScript {
  const { vocab, dim, heads, layers, kvHeads = heads, ffn = llamaFfn(dim), tied, qkvBias } = shape;
  const attention = (name: string): string => `model.layers.*.self_attn.${name}_proj`;
  const mlp = (name: string): string => `model.layers.*.mlp.${name}_proj`;
  return {
    constants: lines(
      `VOCAB, LAYERS, DIM, FFN, HEADS, KV_HEADS, HEAD_DIM = ${[vocab, layers, dim, ffn, heads, kvHeads, dim / heads].join(', ')}`,
      `ROPE_THETA, NORM_EPS = ${shape.ropeTheta}, ${shape.normEps}`,
    ),
    className: 'Llama',
    blockClass: 'LlamaBlock',
    blocks: 'model.model.layers',
    readOutside: tied ? ['model.model.embed_tokens.weight'] : [],
    split: {
      columns: [attention('[qkv]'), mlp('[gu]*')],
      rows: [attention('o'), mlp('down')],
    },
    classes: lines(
      attentionClass(qkvBias),
      '',
      '',
      BLOCK,
      '',
      '',
      decoderClass(call),
      '',
      '',
      'class Llama(nn.Module):',
      '    def __init__(self):',
      '        super().__init__()',
      '        self.model = Decoder()',
      !tied && '        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)',
      '',
      '    def forward(self, ids, targets):',
      tied
        ? '        logits = F.linear(self.model(ids), self.model.embed_tokens.weight)'
        : '        logits = self.lm_head(self.model(ids))',
      LOSS_LINE,
    ),
  };
}

function attentionClass(qkvBias: boolean): string {
  const bias = pythonValue(qkvBias);
  return lines(
    'class Attention(nn.Module):',
    '    def __init__(self):',
    '        super().__init__()',
    `        self.q_proj, self.o_proj = nn.Linear(DIM, DIM, bias=${bias}), nn.Linear(DIM, DIM, bias=False)`,
    `        self.k_proj, self.v_proj = (nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=${bias}) for _ in range(2))`,
    '',
    '    def forward(self, x, cos, sin):',
    '        heads = (*x.shape[:2], -1, HEAD_DIM)',
    '        q, k, v = (proj(x).view(heads).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))',
    '        q, k = (y * cos + torch.cat((-y[..., HEAD_DIM // 2 :], y[..., : HEAD_DIM // 2]), dim=-1) * sin for y in (q, k))',
    '        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)',
    '        return self.o_proj(mixed.transpose(1, 2).flatten(2))',
  );
}

function decoderClass(call: BlockCall): string {
  return lines(
    'class Decoder(nn.Module):',
    '    def __init__(self):',
    '        super().__init__()',
    '        self.embed_tokens = nn.Embedding(VOCAB, DIM)',
    '        self.layers = nn.ModuleList(LlamaBlock() for _ in range(LAYERS))',
    '        self.norm = nn.RMSNorm(DIM, eps=NORM_EPS)',
    '',
    '    def forward(self, ids):',
    '        x = self.embed_tokens(ids)',
    '        frequencies = ROPE_THETA ** (-torch.arange(0, HEAD_DIM, 2, device=ids.device) / HEAD_DIM)',
    '        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device), frequencies).repeat(1, 2)',
    '        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)',
    call('self.layers', 'x, cos, sin'),
    '        return self.norm(x)',
  );
}

const BLOCK = lines(
  'class SwiGLU(nn.Module):',
  '    def __init__(self):',
  '        super().__init__()',
  '        self.gate_proj, self.up_proj = nn.Linear(DIM, FFN, bias=False), nn.Linear(DIM, FFN, bias=False)',
  '        self.down_proj = nn.Linear(FFN, DIM, bias=False)',
  '',
  '    def forward(self, x):',
  '        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))',
  '',
  '',
  'class LlamaBlock(nn.Module):',
  '    def __init__(self):',
  '        super().__init__()',
  '        self.self_attn, self.mlp = Attention(), SwiGLU()',
  '        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(DIM, eps=NORM_EPS) for _ in range(2))',
  '',
  '    def forward(self, x, cos, sin):',
  '        x = x + self.self_attn(self.input_layernorm(x), cos, sin)',
  '        return x + self.mlp(self.post_attention_layernorm(x))',
);
