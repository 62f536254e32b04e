/** Functions that some operations call, by name; model.py has those that it uses. */
export const HELPERS: Readonly<Record<string, string>> = {
  causal_softmax: `def causal_softmax(scores, scale):
    rows, columns = scores.shape[-2:]
    seen = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).tril(columns - rows)
    return F.softmax((scores * scale).masked_fill(~seen, float("-inf")), dim=-1)`,
  causal_attention: `def causal_attention(qkv, heads):
    split = (*qkv.shape[:2], heads, -1)
    q, k, v = (part.reshape(split).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)`,
  mean_cross_entropy: `def mean_cross_entropy(logits, labels):  # the mean over all rows; a row with the label -100 has the loss 0
    rows = logits.reshape(-1, logits.shape[-1])
    return F.cross_entropy(rows, labels.flatten(), reduction="sum") / rows.shape[0]`,
};
