#include "model/rank/offload.hpp"

namespace plumb::model {
Event transfer(Streams& streams, Stream stream, Tensor from, const std::shared_ptr<Tensor>& onto) {
  const auto source = std::make_shared<const Tensor>(std::move(from));
  Event last;
  for (int i = 0; i < pieces; ++i) {
    last = streams.issue(stream, [source, onto, piece = slice(source->size(), pieces, i)] {
      const auto first = static_cast<std::ptrdiff_t>(piece.first);
      std::copy_n(source->values.begin() + first, piece.last - piece.first,
                  onto->values.begin() + first);
    });
  }
  return last;
}

std::pair<int, int> OffloadedInputs::key(int layer) const {
  return {rank_.where.micro_batch, layer};
}

void OffloadedInputs::park(int layer, Tensor x) {
  Stay& stay = host_[key(layer)];
  stay.x = std::make_shared<Tensor>(x.rows, x.cols);
  stay.arrived = transfer(rank_.streams, Stream::to_host, std::move(x), stay.x);
}

void OffloadedInputs::bring_back(int layer) {
  const auto found = host_.find(key(layer));
  if (found == host_.end() || found->second.device) return;
  Stay& stay = found->second;
  rank_.wait(stay.arrived, Wait::parked, "layers." + std::to_string(layer));
  std::shared_ptr<Tensor>& place = places_[returned_++ % 2];
  if (!place) place = std::make_shared<Tensor>(stay.x->rows, stay.x->cols);
  stay.device = place;
  stay.back = transfer(rank_.streams, Stream::to_device, *stay.x, place);
}

Tensor OffloadedInputs::take(int layer) {
  bring_back(layer);
  const auto stay = host_.extract(key(layer)).mapped();
  rank_.wait(stay.back, Wait::brought_back, "layers." + std::to_string(layer));
  return *stay.device;
}

void OptimizerTransfers::send(const std::string& name, Tensor x,
                              const std::function<Tensor()>& before) {
  if (!rank_.l.offload_optimizer) {
    rides_[name] = {std::make_shared<Tensor>(std::move(x)), {}};
    return;
  }
  const auto there = std::make_shared<Tensor>(before());
  rides_[name] = {there, transfer(rank_.streams, stream_, std::move(x), there)};
}

Tensor OptimizerTransfers::take(const std::string& name) {
  const Ride ride = rides_.extract(name).mapped();
  rank_.wait(ride.arrived,
             stream_ == Stream::to_host ? Wait::gradient_on_host : Wait::parameter_back, name);
  // A bug may leave out a wait: pieces still arrive, where they were to go.
  return rank_.l.offload_optimizer ? *ride.x : std::move(*ride.x);
}

}  // namespace plumb::model
