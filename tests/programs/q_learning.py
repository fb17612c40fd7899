"""Deep Q-learning on a corridor: a replay memory, a policy network and a slower target."""

import math
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class Corridor:
    """Five places; one starts in the middle, the right end is the goal."""

    def reset(self):
        self.place = 2
        return [float(self.place == i) for i in range(5)]

    def step(self, action):
        self.place += 1 if action == 1 else -1
        done = self.place in (0, 4)
        return [float(self.place == i) for i in range(5)], float(self.place == 4), done


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 16)
        self.layer2 = nn.Linear(16, n_actions)

    def forward(self, x):
        return self.layer2(F.relu(self.layer1(x)))


random.seed(0)
torch.manual_seed(12)
env = Corridor()
policy_net, target_net = DQN(5, 2), DQN(5, 2)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
memory = deque(maxlen=500)
steps_done, losses = 0, []


def select_action(state):
    global steps_done
    threshold = 0.05 + 0.85 * math.exp(-steps_done / 100)
    steps_done += 1
    if random.random() > threshold:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]], dtype=torch.long)


def optimize_model():
    if len(memory) < 16:
        return
    batch = Transition(*zip(*random.sample(memory, 16)))
    non_final_mask = torch.tensor([s is not None for s in batch.next_state], dtype=torch.bool)
    state_batch, action_batch = torch.cat(batch.state), torch.cat(batch.action)
    reward_batch = torch.cat(batch.reward)
    state_action_values = policy_net(state_batch).gather(1, action_batch)
    next_state_values = torch.zeros(16)
    following = [s for s in batch.next_state if s is not None]
    if following:
        with torch.no_grad():
            next_state_values[non_final_mask] = target_net(torch.cat(following)).max(1).values
    expected = next_state_values * 0.9 + reward_batch
    loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    losses.append(loss.item())


for episode in range(30):
    state = torch.tensor(env.reset(), dtype=torch.float32).unsqueeze(0)
    done = False
    while not done:
        action = select_action(state)
        observation, reward, done = env.step(action.item())
        next_state = None if done else torch.tensor(observation, dtype=torch.float32).unsqueeze(0)
        memory.append(Transition(state, action, next_state, torch.tensor([reward])))
        state = next_state
        optimize_model()
        target_dict, policy_dict = target_net.state_dict(), policy_net.state_dict()
        for key in policy_dict:
            target_dict[key] = policy_dict[key] * 0.05 + target_dict[key] * 0.95
        target_net.load_state_dict(target_dict)
assert policy_net(torch.eye(5)[2:3]).argmax().item() == 1
losses = losses[:20]
