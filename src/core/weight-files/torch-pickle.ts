/** Endings of the file names of torch's pickles. */
export const PICKLE_NAME = /\.(pth|pt|bin|ckpt)$/i;

/**
 * Returns the command that converts a torch pickle to a safetensors file beside it. The command takes the dictionary under
 * 'state_dict' or 'model', if there is one, omits values that are not tensors, and copies each tensor, because safetensors does
 * not allow shared storage.
 */
export function conversionLine(file: string): string {
  const target = `${file.replace(PICKLE_NAME, '')}.safetensors`;
  const code = [
    'import torch, safetensors.torch as s',
    `d=torch.load(${pythonText(file)}, map_location='cpu', weights_only=True)`,
    "d=d.get('state_dict', d.get('model', d))",
    `s.save_file({k: v.clone().contiguous() for k, v in d.items() if torch.is_tensor(v)}, ${pythonText(target)}, metadata={'format': 'pt'})`,
  ];
  return `python -c "${code.join('; ')}"`;
}

/** Returns a Python string literal that a shell does not change within double quotes. */
function pythonText(text: string): string {
  const escaped = text.replace(/[\\'"$`!]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16)}`);
  return `'${escaped}'`;
}
