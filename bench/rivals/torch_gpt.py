"""A fast GPT-2 style decoder made of standard PyTorch modules, with which the benchmarks compare gpt."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Norm(nn.Module):
    """LayerNorm with an optional bias."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Block(nn.Module):
    def __init__(self, width, heads, d_ff, attention_bias, mlp_bias, norm_bias, gelu):
        super().__init__()
        self.heads, self.gelu = heads, gelu
        self.norm1, self.norm2 = Norm(width, norm_bias), Norm(width, norm_bias)
        self.qkv = nn.Linear(width, 3 * width, bias=attention_bias)
        self.out = nn.Linear(width, width, bias=attention_bias)
        self.up = nn.Linear(width, d_ff, bias=mlp_bias)
        self.down = nn.Linear(d_ff, width, bias=mlp_bias)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate=self.gelu))


class Gpt(nn.Module):
    """GPT with pre-LN, learned positions, tied head and no dropout. `gelu`: "none" (erf) or "tanh". Returns the mean cross-entropy."""

    def __init__(self, vocab, ctx, width, layers, heads, d_ff=None, attention_bias=False, mlp_bias=False,
                 norm_bias=False, gelu="none", scale_residual_init=True):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(ctx, width)
        self.blocks = nn.ModuleList(Block(width, heads, d_ff or 4 * width, attention_bias, mlp_bias, norm_bias, gelu)
                                    for _ in range(layers))
        self.norm = Norm(width, norm_bias)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = scale_residual_init and name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_adamw(model, lr, betas, weight_decay, **kind):
    """Returns an AdamW with weight decay on tensors of two or more dimensions. kind: fused=True or foreach=True, else PyTorch decides."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=1e-8, **kind)


def train_step(loss_of, model, optimizer, ids, targets, clip=1.0):
    """Runs one training step. `loss_of` is the model or its compiled form. Returns the loss before the step."""
    loss = loss_of(ids, targets)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.detach()
